#!/usr/bin/env python3
"""CTC loss and spatial transformers of the emulated libcudnn compared with complete sums: rare.py FOLDER.
Includes refusals of wrong arguments."""
import ctypes
import itertools
import math
import os
import random
import subprocess
import sys
import unittest

FOLDER = sys.argv[1]
if os.environ.get("LD_LIBRARY_PATH") != FOLDER:
    os.execve(sys.executable, [sys.executable, *sys.argv], dict(os.environ, LD_LIBRARY_PATH=FOLDER))
cudart, cudnn = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libcudnn.so.9")
BAD_PARAM, NOT_SUPPORTED = 2000, 3000
RANDOM = random.Random(1)


def pointer(function, *arguments):
    made = ctypes.c_void_p()
    assert function(ctypes.byref(made), *arguments) == 0
    return made


class Array:
    """Numbers on the device."""

    def __init__(self, values, kind=ctypes.c_float):
        self.host = (kind * len(values))(*values)
        self.device = pointer(cudart.cudaMalloc, ctypes.c_size_t(ctypes.sizeof(self.host)))
        self.copy(self.device, self.host, 1)

    def copy(self, to, source, kind):
        assert cudart.cudaMemcpy(to, source, ctypes.c_size_t(ctypes.sizeof(self.host)), kind) == 0

    def values(self):
        assert cudart.cudaDeviceSynchronize() == 0
        self.copy(self.host, self.device, 2)
        return list(self.host)


def integers(*values):
    return (ctypes.c_int * len(values))(*values)


def tensor(*dims):
    made = pointer(cudnn.cudnnCreateTensorDescriptor)
    strides = [math.prod(dims[i + 1:]) for i in range(len(dims))]
    assert cudnn.cudnnSetTensorNdDescriptor(made, 0, len(dims), integers(*dims), integers(*strides)) == 0
    return made


def gaussian(count):
    return [RANDOM.gauss(0, 1) for _ in range(count)]


HANDLE = pointer(cudnn.cudnnCreate)
NUMBER = {value: ctypes.byref(ctypes.c_float(value)) for value in (0, 1, 2, -0.5)}


class Version(unittest.TestCase):
    def test_all_functions_report_the_chosen_version(self):
        script = ("import ctypes; l = ctypes.CDLL('libcudnn.so.9'); l.cudnnGetVersion.restype = ctypes.c_size_t; v = ctypes.c_int(); "
                  "print(l.cudnnGetVersion(), *[(l.cudnnGetProperty(i, ctypes.byref(v)), v.value) for i in range(3)])")
        done = subprocess.run([sys.executable, "-c", script], env=dict(os.environ, AUTOAMP_EMU_CUDNN="92605"), capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.stdout, done.stderr), ("92605 (0, 9) (0, 26) (0, 5)\n", ""))


class Rare(unittest.TestCase):
    def assertNear(self, got, wanted):
        self.assertEqual(len(got), len(wanted))
        for one, other in zip(got, wanted):
            self.assertLess(abs(one - other), 1e-5 * (1 + abs(other)))


class Losses(Rare):
    T, N, A = 5, 3, 3
    LABELS, LENGTHS, STEPS = [1, 2, 2, 2, 1], [2, 2, 1], [5, 4, 3]  # one sample has the same label twice

    @staticmethod
    def softmax(row):
        powers = [math.exp(x) for x in row]
        return [x / sum(powers) for x in powers]

    def cost(self, logits, sample):
        """-log of the sum over all paths that give the label."""
        start = sum(self.LENGTHS[:sample])
        wanted = self.LABELS[start:start + self.LENGTHS[sample]]
        p = [self.softmax(logits[(t * self.N + sample) * self.A:][:self.A]) for t in range(self.STEPS[sample])]
        whole = 0
        for way in itertools.product(range(self.A), repeat=len(p)):
            if [a for a, _ in itertools.groupby(way) if a] == wanted:
                whole += math.prod(row[a] for row, a in zip(p, way))
        return -math.log(whole)

    def gradient(self, logits, step=1e-5):
        found = []
        for i in range(len(logits)):
            moved = [[x + sign * step * (i == j) for j, x in enumerate(logits)] for sign in (1, -1)]
            sample = i // self.A % self.N
            found.append((self.cost(moved[0], sample) - self.cost(moved[1], sample)) / (2 * step))
        return found

    def test_both_calls_and_normalizations(self):
        logits = gaussian(self.T * self.N * self.A)
        shape = tensor(self.T, self.N, self.A)
        expected = [self.cost(logits, n) for n in range(self.N)]
        rows = [logits[i:i + self.A] for i in range(0, len(logits), self.A)]
        for is_softmax, is_device in itertools.product((0, 1), (0, 1)):
            with self.subTest(is_softmax=is_softmax, is_device=is_device):
                loss = pointer(cudnn.cudnnCreateCTCLossDescriptor)
                self.assertEqual(cudnn.cudnnSetCTCLossDescriptor_v9(loss, 0, is_softmax, 0, 4), 0)
                probs = Array(logits if is_softmax else [p for row in rows for p in self.softmax(row)])
                costs, gradients = Array([9.0] * self.N), Array([9.0] * len(logits))
                host = [integers(*one) for one in (self.LABELS, self.LENGTHS, self.STEPS)]
                size = ctypes.c_size_t()
                if is_device:
                    asked = cudnn.cudnnGetCTCLossWorkspaceSize_v8(HANDLE, 0, loss, shape, shape, ctypes.byref(size))
                else:
                    asked = cudnn.cudnnGetCTCLossWorkspaceSize(HANDLE, shape, shape, *host, 0, loss, ctypes.byref(size))
                self.assertEqual(asked, 0)
                room = Array([0] * size.value, ctypes.c_byte)

                def call(bytes_):
                    room_size = ctypes.c_size_t(bytes_)
                    if not is_device:
                        return cudnn.cudnnCTCLoss(HANDLE, shape, probs.device, *host, costs.device, shape, gradients.device, 0,
                                                  loss, room.device, room_size)
                    lists = [Array(one, ctypes.c_int).device for one in (self.LABELS, self.LENGTHS, self.STEPS)]
                    return cudnn.cudnnCTCLoss_v8(HANDLE, 0, loss, shape, probs.device, *lists, costs.device, shape,
                                                 gradients.device, room_size, room.device)

                self.assertEqual(call(size.value - 1), BAD_PARAM)
                self.assertEqual(call(size.value), 0)
                self.assertNear(costs.values(), expected)
                self.assertNear(gradients.values(), self.gradient(logits))
        self.assertEqual(cudnn.cudnnCTCLoss(HANDLE, shape, probs.device, integers(1, 3, 1, 1, 1), *host[1:], costs.device, shape,
                                            gradients.device, 0, loss, room.device, ctypes.c_size_t(1 << 20)), BAD_PARAM)


class Transformers(Rare):
    N, C, H, W = 2, 3, 4, 5  # of the result
    IMAGE = (2, 3, 6, 3)

    def setUp(self):
        self.st = pointer(cudnn.cudnnCreateSpatialTransformerDescriptor)
        self.assertEqual(cudnn.cudnnSetSpatialTransformerNdDescriptor(self.st, 0, 0, 4, integers(self.N, self.C, self.H, self.W)), 0)

    def pixels(self):
        for h, w in itertools.product(range(self.H), range(self.W)):
            yield 2 * w / (self.W - 1) - 1, 2 * h / (self.H - 1) - 1, 1

    def sampled(self, image, grid):
        _, _, height, width = self.IMAGE
        found = []
        for n, c, place in itertools.product(range(self.N), range(self.C), range(self.H * self.W)):
            x, y = grid[2 * (n * self.H * self.W + place):][:2]
            column, row = (x + 1) / 2 * (width - 1), (y + 1) / 2 * (height - 1)
            found.append(sum(max(0, 1 - abs(column - w)) * max(0, 1 - abs(row - h)) * image[((n * self.C + c) * height + h) * width + w]
                             for h, w in itertools.product(range(height), range(width))))
        return found

    def test_grid(self):
        theta = gaussian(6 * self.N)
        grid, back = Array([0.0] * (2 * self.N * self.H * self.W)), Array([0.0] * len(theta))
        self.assertEqual(cudnn.cudnnSpatialTfGridGeneratorForward(HANDLE, self.st, Array(theta).device, grid.device), 0)
        self.assertNear(grid.values(), [sum(a * b for a, b in zip(theta[6 * n + 3 * i:], pixel))
                                        for n in range(self.N) for pixel in self.pixels() for i in (0, 1)])
        gradient = gaussian(len(grid.host))
        self.assertEqual(cudnn.cudnnSpatialTfGridGeneratorBackward(HANDLE, self.st, Array(gradient).device, back.device), 0)
        count = self.H * self.W
        self.assertNear(back.values(), [sum(gradient[2 * (n * count + p) + i] * pixel[j] for p, pixel in enumerate(self.pixels()))
                                        for n in range(self.N) for i in (0, 1) for j in range(3)])
        self.assertEqual(cudnn.cudnnSpatialTfGridGeneratorForward(HANDLE, None, back.device, grid.device), BAD_PARAM)

    def test_sampler(self):
        x, y = tensor(*self.IMAGE), tensor(self.N, self.C, self.H, self.W)
        image, grid = gaussian(math.prod(self.IMAGE)), [RANDOM.uniform(-1.3, 1.3) for _ in range(2 * self.N * self.H * self.W)]
        device, places, result = Array(image), Array(grid), Array([3.0] * (self.N * self.C * self.H * self.W))
        call = [HANDLE, self.st, NUMBER[2], x, device.device, places.device, NUMBER[-0.5], y, result.device]
        self.assertEqual(cudnn.cudnnSpatialTfSamplerForward(*call), 0)
        self.assertNear(result.values(), [2 * one - 1.5 for one in self.sampled(image, grid)])
        self.assertEqual(cudnn.cudnnSpatialTfSamplerForward(*call[:7], x, result.device), BAD_PARAM)
        # The gradients of sum(dy * y), by differences.
        dy = gaussian(len(result.host))
        dx, dgrid = Array([1.0] * len(image)), Array([1.0] * len(grid))
        self.assertEqual(cudnn.cudnnSpatialTfSamplerBackward(HANDLE, self.st, NUMBER[1], x, device.device, NUMBER[2], x, dx.device,
                                                             NUMBER[-0.5], y, Array(dy).device, places.device, NUMBER[0],
                                                             dgrid.device), 0)

        def slope(values, function, i, step=1e-4):
            moved = [[one + sign * step * (i == j) for j, one in enumerate(values)] for sign in (1, -1)]
            return sum(d * (a - b) for d, a, b in zip(dy, function(moved[0]), function(moved[1]))) / (2 * step)

        got, got_grid = dx.values(), dgrid.values()
        for i in range(0, len(image), 7):
            self.assertAlmostEqual(got[i], 2 + slope(image, lambda v: self.sampled(v, grid), i), 3)
        for i in range(0, len(grid), 7):
            self.assertAlmostEqual(got_grid[i], -0.5 * slope(grid, lambda v: self.sampled(image, v), i), 3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
