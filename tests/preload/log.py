"""AUTOAMP_LOG: the lines of each level for a program that makes products."""
import re

import runner
from runner import run


class Log(runner.Test):
    def lines(self, level, *cases, **variables):
        result = run("ranges", *cases, STRATEGY="cast", LOG=level, **variables)
        self.assertEqual(result.status, 0, result.errors)
        lines = result.errors.splitlines()
        self.assertTrue(all(line.startswith("autoamp: ") for line in lines), lines)
        return [line.removeprefix("autoamp: ") for line in lines]

    def matching(self, lines, pattern):
        return [line for line in lines if re.search(pattern, line)]

    def test_nothing_below_info(self):
        for level in ("off", "error", "warn"):
            self.assertEqual(self.lines(level, "nested"), [])

    def test_info_says_what_runs_where(self):
        lines = self.lines("info", "nested")
        for pattern in (r"^core /.*/libautoamp-core\.so, version \d", r"^settings: .*AUTOAMP_STRATEGY=cast \(environment\)",
                        r"^trace: /.*\.aat$", r"^CUDA driver \d+\.\d", r"^device 0: ", r"^cublas \d+\.\d+\.\d+$"):
            self.assertEqual(len(self.matching(lines, pattern)), 1, pattern)
        self.assertEqual(self.matching(self.lines("info", "nested", TRACE="off"), "^trace: "), ["trace: none"])

    def test_debug_says_what_was_decided_once(self):
        lines = self.lines("debug", "many")
        decided = self.matching(lines, r"^cublasSgemm_v2 NN 64x64x64 b1 of float32 from ranges: lowered in float16 by cast, white_list; model ")
        self.assertEqual(len(decided), 1, lines)
        self.assertEqual(len(self.matching(lines, r"^engine for 64x64x64 b1 in float16: result \d+ of \d+, workspace \d+ bytes$")), 1, lines)
        self.assertTrue(self.matching(lines, r"^memory for operands: \d+ bytes in use, \d+ more$"), lines)

    @runner.emulated_only("it makes a step of a lowered call fail")
    def test_debug_says_what_fell_back(self):
        runner.store_self_tests()
        lines = self.lines("debug", "many", EMU_FAIL="cublasLtMatmulAlgoGetHeuristic:1")
        self.assertEqual(len(self.matching(lines, r"cublasSgemm_v2 NN 64x64x64 .*: fallback ")), 1, lines)


if __name__ == "__main__":
    runner.main()
