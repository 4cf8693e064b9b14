"""Objects that are created, destroyed or exhausted around products: graphs, streams, handles, the device's memory, the
kernels."""
import os
import subprocess

import runner
from runner import CAST_BFLOAT16, CAST_HALF, bare, run

PROGRAM = "lifetimes"
SLACK = 3 << 20  # bytes by which a process may differ between two runs
DEVICE = "128M"


class Kernels(runner.Test):
    @runner.emulated_only("a driver of any version")
    def test_oldest_driver(self):
        """A driver of CUDA 12.0 loads images of NVRTC. It refuses images of nvcc 13. `doctor` reports the same."""
        doctor = subprocess.run([runner.PLACE.autoamp, "doctor"], capture_output=True, text=True, check=True,
                                env=dict(os.environ, LD_LIBRARY_PATH=runner.PLACE.emulated, AUTOAMP_EMU_DRIVER="12000")).stdout
        self.assertRegex(doctor, r"\n  driver .*CUDA 12\.0")
        loads = "\n  yes  a driver that loads autoamp's kernels (525 or newer" in doctor
        self.assertTrue(loads or "\n  no   a driver that loads autoamp's kernels (580 or newer" in doctor, doctor)
        result = run("configured", "door.sgemm", EMU_DRIVER="12000", **CAST_HALF.variables)
        self.assertFine(result)
        rows = result.rows_of(result.cases["door.sgemm"])
        self.assertEqual([(row["decision"], row["reason"]) for row in rows],
                         [("lowered", "white_list") if loads else ("kept", "driver_too_old")])


class Graphs(runner.Test):
    """Updated, cloned, nested, launched twice, destroyed: same results as without autoamp, and every byte is
    released."""

    def test_graphs(self):
        reference = bare(PROGRAM, "graphs.*")
        self.assertFine(reference)
        for way in (CAST_HALF, CAST_BFLOAT16):
            result = run(PROGRAM, "graphs.*", **way.variables)
            self.assertFine(result)
            self.assertEqual(result.report["totals"]["lowered"], result.report["totals"]["calls"])
            self.assertEqual(result.cases.keys(), reference.cases.keys())
            for name, case in result.cases.items():
                with self.subTest(f"{way.precision} {name}"):
                    self.assertEqual(case.get("statuses"), reference.cases[name].get("statuses"))
                    self.assertLessEqual(int(case["lost"]), 0 if runner.PLACE.emulated else SLACK)


class Flat(runner.Test):
    """10,000 streams, 1,000 handles, each used once: neither host nor device memory grows with them."""

    def test_streams_and_handles(self):
        for name in ("streams.destroyed", "streams.alive", "handles.cublas", "handles.lt"):
            with self.subTest(name):
                reference, result = bare(PROGRAM, name), run(PROGRAM, name, **CAST_HALF.variables)
                for one in (reference, result):
                    self.assertFine(one)
                case = result.cases[name]
                self.assertLowered(result, case, CAST_HALF, calls=int(case["calls"]))
                for key in ("lost", "grown"):
                    self.assertLessEqual(int(case[key]), int(reference.cases[name][key]) + SLACK, key)


class Full(runner.Test):
    """An application that takes nearly all of the device. Calls that autoamp has no memory for run by a strategy that
    needs none, or unchanged, until memory is free again."""

    # Reason why an eager and a captured call are not cast while memory is short. Idle memory of autoamp's pool is still
    # used.
    SHORT = {"full.later": (None, "memory_budget"), "full.first": ("memory_budget", "capture_unready"),
             "full.nothing": ("out_of_memory", "capture_unready")}

    @runner.emulated_only("a small device")
    def test_full(self):
        runner.store_self_tests()
        without_tf32 = {"_NVIDIA_TF32_OVERRIDE": "0"}
        for way, decision, variables in ((CAST_HALF, "lowered", {}), (CAST_BFLOAT16, "lowered", {}),
                                         (CAST_HALF, "fallback", without_tf32)):
            for name, short in self.SHORT.items():
                with self.subTest(f"{way.precision} {name} {decision}"):
                    reference = bare(PROGRAM, name, EMU_MEMORY=DEVICE)
                    result = run(PROGRAM, name, EMU_MEMORY=DEVICE, **way.variables, **variables)
                    for one in (reference, result):
                        self.assertFine(one)
                    case, own = result.cases[name], reference.cases[name]
                    self.assertEqual(case["status"], own["status"])
                    for key, reason in zip(("full_bits", "captured_bits"), short):
                        self.assertEqual(case[key] == own[key], reason is not None and decision == "fallback", key)
                    self.assertNotEqual(case["after_bits"], own["after_bits"])
                    self.assertWithin(case["eta"], way.eta(), "eta")
                    self.assertEqual(sorted((row["decision"], row["reason"]) for row in result.rows_of(case)
                                            if row["reason"] != "white_list"),
                                     sorted((decision, reason) for reason in short if reason))
                    # Memory that an application which does not query the free memory lacks.
                    self.assertLessEqual(int(case["held"]), 4 << 20)


if __name__ == "__main__":
    runner.main()
