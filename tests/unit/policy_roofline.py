#!/usr/bin/env python3
"""Writes policy_roofline.inc: results of the published model (roofline.py) for every shape of its tables on every GPU,
and its choice.

    tests/unit/policy_roofline.py > tests/unit/policy_roofline.inc
"""
import roofline

RATIO, MICROSECONDS = 1.05, 1  # smaller gains are as likely to be a loss
SHAPES = [shape[1:] for shape in roofline.SHAPES] + [(*shape, 1) for shape in roofline.XLA] + [(300, 17, 5000, 3)]
WAYS = {"cast": "cast", "tf32": "tf32"}


def choice(times, asked, ways):
    best = min(ways, key=lambda way: times[WAYS[way]])
    isGain = times[asked] >= RATIO * times[WAYS[best]] and times[asked] - times[WAYS[best]] >= MICROSECONDS
    return best if isGain else "fp32"


print("// Made by policy_roofline.py. GPU; m, n, k, batch; us of fp32, TF32, FAST_16, half, the conversion, conversion and")
print("// half; the choice against fp32 and against TF32, for bfloat16 and for float16 as if scaling were free.")
for device in roofline.DEV:
    for m, n, k, b in dict.fromkeys(SHAPES):
        times = roofline.strategies(device, m, n, k, b)
        cast = roofline.conv_pass(device, b * (m * k + k * n))
        numbers = [times["sgemm"], times["tf32"], times["fast16"], times["castAB"], cast, times["cast"]]
        choices = [choice(times, "sgemm", ["cast", "tf32"]), choice(times, "tf32", ["cast"])]
        print("{GpuModel::%s, %d, %d, %d, %d, %s, {%s}}," % (
            device.lower(), m, n, k, b, ", ".join("%.6g" % number for number in numbers),
            ", ".join("Strategy::" + word for word in choices)))
