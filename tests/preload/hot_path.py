"""A cached call needs no memory and no lock, with 50 rules as without rules, inside and outside of regions."""
import os
import tempfile

import runner
from runner import run

# Rules of every kind; some match this program and its regions, none matches its calls.
MATCHERS = ('entry = "cublasLt*"\nm = ">1000000"', 'm = ">1000000"', 'caller = "lib{}*"', 'thread = "worker-{}"',
            'region = "o*"\nn = {}000000')
RULES = "".join(f'[[rule]]\n{MATCHERS[i % 5].format(i)}\nprecision = "bfloat16"\n' for i in range(50))


class HotPath(runner.Test):
    def test_known_calls_take_no_memory_and_no_lock(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(RULES)
            file.flush()
            for strategy in ("cast", "tf32", "auto"):  # lowered by different strategies, and mostly kept
                for trace in ("off", "summary", "ops"):
                    for rules in ({"CONFIG": file.name}, *({} for _ in range(trace == "summary"))):
                        with self.subTest(strategy=strategy, trace=trace, **rules):
                            # With float16 a recast would be an event of the trace, which takes the trace's lock. Two
                            # operands whose predictions share a place, depending on their addresses, cause one at each
                            # call.
                            result = run("hot_path", STRATEGY=strategy, TRACE=trace, DTYPE="bfloat16", **rules)
                            self.assertFine(result)
                            self.check(result, trace)

    def test_known_calls_of_cudnn(self):
        for program, cases in (("convolutions", 4), ("dnn_graph", 3)):
            for trace in ("off", "summary", "ops"):
                for strategy, lowered in (("cast", True), ("fp32", False)):
                    with self.subTest(program, trace=trace, strategy=strategy):
                        result = run(program, "hot_path.*", STRATEGY=strategy, TRACE=trace, DTYPE="bfloat16")
                        self.assertFine(result)
                        self.assertEqual(len(result.cases), cases)
                        if trace != "off":
                            self.assertEqual({row["decision"] == "lowered" for row in result.rows()}, {lowered})
                        self.check(result, trace)

    def check(self, result, trace):
        for name, case in result.cases.items():
            count = {key: int(value) for key, value in case.items()}
            # The first time both are needed to test that the counters count.
            self.assertTrue(count["first_allocations"] and count["first_locks"], name)
            # With all events in the trace, each chunk of a few thousand events takes a lock.
            chunks = count["calls"] // 2000 if trace == "ops" else 0
            self.assertEqual(count["allocations"], 0, name)
            self.assertLessEqual(count["locks"], chunks, name)


if __name__ == "__main__":
    runner.main()
