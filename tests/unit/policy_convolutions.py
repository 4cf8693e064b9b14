#!/usr/bin/env python3
"""Writes policy_convolutions.inc: results of the published model (roofline.py) for ResNet-50's convolutions and a few
others.

    tests/unit/policy_convolutions.py > tests/unit/policy_convolutions.inc
"""
import roofline

LAYERS = sorted(set(layer for layer in roofline.resnet50() if layer[0] % 8 == 0))

print("// Made by policy_convolutions.py. GPU; n, c, k, filter, stride, size; us of fp32, TF32 (NHWC), cast and half with fp32 result, the same with a half result and its widening.")
for device in roofline.DEV:
    for batch in (1, 64):
        for c, k, r, stride, h in LAYERS:
            times = roofline.conv_times(device, batch, c, k, r, stride, h)
            print("{GpuModel::%s, %d, %d, %d, %d, %d, %d, %.6g, %.6g, %.6g, %.6g}," % (
                device.lower(), batch, c, k, r, stride, h, times["fp32 NCHW"], times["tf32 NHWC"],
                times["amp half in, fp32 out"], times["amp half in/out"]))
