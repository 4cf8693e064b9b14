#include "src/policy/cost_model.h"

#include <catch2/catch.hpp>

#include <initializer_list>
#include <string>

using namespace autoamp;
using namespace autoamp::policy;

namespace {

// The original of the model, roofline.py, printed these with
//   python3 -c "from roofline import gemm, conv_pass
//   for d in 'A100', 'H100', 'H200', 'B200', 'RTX4090':
//     for m, n, k, b in SHAPES: print(*(gemm(d, p, m, n, k, b) for p in ('fp32', 'tf32', 'half')),
//                                     conv_pass(d, b * (m * k + k * n)))"
struct {
	GpuModel gpu;
	int m, n, k, batch;
	double fp32, tf32, half, cast; // us
} const expected[] = {
    // clang-format off
	{GpuModel::a100, 64, 64, 64, 1024, 61.4737, 33.2609, 23.674, 31.2609},
	{GpuModel::a100, 256, 256, 256, 1, 20.7156, 8.3317, 6.53169, 2.76214},
	{GpuModel::a100, 1024, 1024, 1024, 1, 162.493, 35.063, 20.5786, 6.6943},
	{GpuModel::a100, 4096, 1024, 4096, 1, 2026.66, 317.708, 176.189, 74.4024},
	{GpuModel::a100, 4096, 4096, 4096, 1, 7690.76, 1088.4, 556.94, 117.544},
	{GpuModel::a100, 1, 4096, 4096, 1, 45.7033, 42.8666, 23.688, 60.0359},
	{GpuModel::a100, 512, 512, 64, 128, 383.933, 100.37, 90.7828, 31.2609},
	{GpuModel::a100, 300, 17, 5000, 3, 75.5926, 19.2651, 13.502, 18.8029},
	{GpuModel::h100, 64, 64, 64, 1024, 26.0205, 22.5772, 16.3848, 19.2772},
	{GpuModel::h100, 256, 256, 256, 1, 12.4785, 8.46699, 5.95746, 2.71845},
	{GpuModel::h100, 1024, 1024, 1024, 1, 55.6014, 18.4361, 9.41433, 5.99525},
	{GpuModel::h100, 4096, 1024, 4096, 1, 673.776, 91.1631, 50.8366, 44.443},
	{GpuModel::h100, 4096, 4096, 4096, 1, 2680.1, 347.253, 187.746, 69.6089},
	{GpuModel::h100, 1, 4096, 4096, 1, 28.1186, 28.1186, 15.8123, 36.0626},
	{GpuModel::h100, 512, 512, 64, 128, 139.531, 63.0579, 55.5316, 19.2772},
	{GpuModel::h100, 300, 17, 5000, 3, 23.9645, 12.1604, 8.86915, 12.01},
	{GpuModel::h200, 64, 64, 64, 1024, 26.0205, 19.8338, 13.0034, 14.205},
	{GpuModel::h200, 256, 256, 256, 1, 12.4785, 8.46699, 5.95746, 2.71845},
	{GpuModel::h200, 1024, 1024, 1024, 1, 55.6014, 18.4361, 9.41433, 5.99525},
	{GpuModel::h200, 4096, 1024, 4096, 1, 673.776, 91.1631, 50.8366, 31.7626},
	{GpuModel::h200, 4096, 4096, 4096, 1, 2680.1, 347.253, 187.746, 49.3201},
	{GpuModel::h200, 1, 4096, 4096, 1, 20.6758, 20.6758, 12.09, 25.9158},
	{GpuModel::h200, 512, 512, 64, 128, 139.531, 63.0579, 40.3151, 14.205},
	{GpuModel::h200, 300, 17, 5000, 3, 23.9151, 11.0351, 8.81981, 10.425},
	{GpuModel::b200, 64, 64, 64, 1024, 21.4671, 14.8384, 9.83448, 8.79146},
	{GpuModel::b200, 256, 256, 256, 1, 11.6954, 7.66547, 5.81204, 2.5983},
	{GpuModel::b200, 1024, 1024, 1024, 1, 50.292, 10.1341, 7.64463, 4.07286},
	{GpuModel::b200, 4096, 1024, 4096, 1, 584.352, 52.5663, 30.8424, 21.0043},
	{GpuModel::b200, 4096, 4096, 4096, 1, 2142.64, 187.36, 103.342, 32.1069},
	{GpuModel::b200, 1, 4096, 4096, 1, 14.3611, 14.3611, 8.9319, 17.307},
	{GpuModel::b200, 512, 512, 64, 128, 110.39, 30.6724, 27.1051, 8.79146},
	{GpuModel::b200, 300, 17, 5000, 3, 22.1141, 13.5117, 8.6027, 6.06625},
	{GpuModel::rtx4090, 64, 64, 64, 1024, 58.6201, 58.6201, 40.58, 56.6201},
	{GpuModel::rtx4090, 256, 256, 256, 1, 10.3895, 9.67734, 7.1691, 2.69661},
	{GpuModel::rtx4090, 1024, 1024, 1024, 1, 44.4887, 36.0738, 21.0081, 5.64573},
	{GpuModel::rtx4090, 4096, 1024, 4096, 1, 564.101, 440.288, 216.808, 137.8},
	{GpuModel::rtx4090, 4096, 4096, 4096, 1, 2242.91, 1747.65, 853.732, 218.98},
	{GpuModel::rtx4090, 1, 4096, 4096, 1, 76.6953, 76.6953, 40.6065, 110.767},
	{GpuModel::rtx4090, 512, 512, 64, 128, 184.9, 184.9, 166.86, 56.6201},
	{GpuModel::rtx4090, 300, 17, 5000, 3, 25.0174, 25.0174, 14.7916, 9.6325},
    // clang-format on
};

op::Op product(int64_t n, int32_t batch = 1)
{
	op::Op call;
	call.m = call.n = call.k = n;
	call.batch = batch;
	const auto size = static_cast<uint64_t>(n) * static_cast<uint64_t>(n); // the largest do not fit
	call.stridea = call.strideb = call.stridec = batch > 1 ? static_cast<int64_t>(size) : 0;
	return call;
}

} // namespace

TEST_CASE("the formulas give the published model's numbers")
{
	for (auto &row : expected) {
		const Gpu &gpu = gpuConstants(row.gpu, nullptr, 0);
		INFO(gpu.name << " " << row.m << "x" << row.n << "x" << row.k << " " << row.batch);
		auto time = [&](Path path) { return gemmTime(gpu, path, row.m, row.n, row.k, row.batch) / 1e3; };
		CHECK(time(Path::fp32) == Approx(row.fp32).epsilon(1e-5));
		CHECK(time(Path::tf32) == Approx(row.tf32).epsilon(1e-5));
		CHECK(time(Path::half) == Approx(row.half).epsilon(1e-5));
		double elements = static_cast<double>(row.batch) * row.k * (row.m + row.n);
		CHECK(castTime(gpu, elements) / 1e3 == Approx(row.cast).epsilon(1e-5));
	}
}

TEST_CASE("a GPU is known by its name, else by what it can compute")
{
	struct {
		GpuModel model;
		const char *device;
		int computeCapability;
		const char *gpu;
	} const cases[] = {
	    {GpuModel::automatic, "NVIDIA H100 80GB HBM3", 90, "h100"},
	    {GpuModel::automatic, "NVIDIA H100 PCIe", 90, "h100"},
	    {GpuModel::automatic, "NVIDIA H200", 90, "h200"},
	    {GpuModel::automatic, "NVIDIA GH200 480GB", 90, "h200"},
	    {GpuModel::automatic, "NVIDIA A100-SXM4-80GB", 80, "a100"},
	    {GpuModel::automatic, "NVIDIA GeForce RTX 4090", 89, "rtx4090"},
	    {GpuModel::automatic, "NVIDIA B200", 100, "b200"},
	    {GpuModel::automatic, "autoamp emulated (h100 constants)", 90, "h100"},
	    {GpuModel::automatic, nullptr, 0, "h100"},
	    {GpuModel::automatic, "Tesla T4", 75, "a100"},
	    {GpuModel::automatic, "NVIDIA A10G", 86, "rtx4090"},
	    {GpuModel::automatic, "NVIDIA H20", 90, "h100"},
	    {GpuModel::automatic, "NVIDIA B300", 103, "b200"},
	    {GpuModel::automatic, "NVIDIA RTX PRO 6000 Blackwell", 120, "rtx4090"},
	    {GpuModel::b200, "NVIDIA A100-SXM4-80GB", 80, "b200"},
	};
	for (auto &each : cases)
		CHECK(gpuConstants(each.model, each.device, each.computeCapability).name == std::string(each.gpu));
}

TEST_CASE("a lowered product pays for conversion, scales and the half product")
{
	const Gpu &h100 = gpuConstants(GpuModel::h100, nullptr, 0);
	Cost cost = estimate(h100, product(4096), Path::fp32, false);
	CHECK(cost.asked == gemmTime(h100, Path::fp32, 4096, 4096, 4096, 1));
	CHECK(cost.lowered ==
	      Approx(castTime(h100, 2.0 * 4096 * 4096) + 1000 + gemmTime(h100, Path::half, 4096, 4096, 4096, 1)));
	CHECK(cost.asked / cost.lowered == Approx(10.4).epsilon(0.01)); // the gain that the model is known for

	Cost scaled = estimate(h100, product(4096), Path::tf32, true);
	CHECK(scaled.lowered > cost.lowered);
	CHECK(scaled.lowered < cost.lowered * 1.05);
	CHECK(scaled.asked < cost.asked);
	CHECK(scaled.launches > cost.launches);

	// However small, a product never costs less than what no device saves.
	for (int64_t n : {1, 16, 64, 256, 4096}) {
		for (GpuModel model : {GpuModel::a100, GpuModel::h100, GpuModel::h200, GpuModel::b200, GpuModel::rtx4090}) {
			Cost each = estimate(gpuConstants(model, nullptr, 0), product(n), Path::fp32, true);
			CHECK(each.launches < each.lowered);
		}
	}
}

TEST_CASE("a matrix that a whole batch shares is converted once")
{
	const Gpu &h100 = gpuConstants(GpuModel::h100, nullptr, 0);
	op::Op own = product(512, 64), shared = own;
	shared.strideb = 0;
	double difference =
	    estimate(h100, own, Path::fp32, false).lowered - estimate(h100, shared, Path::fp32, false).lowered;
	CHECK(difference == Approx(castTime(h100, 128 * 512. * 512) - castTime(h100, 65 * 512. * 512)));
}

TEST_CASE("sizes beyond all memory stay numbers")
{
	op::Op huge = product(int64_t{1} << 40, 1 << 30);
	Cost cost = estimate(gpuConstants(GpuModel::h100, nullptr, 0), huge, Path::fp32, true);
	CHECK(cost.asked > cost.lowered);
	CHECK(cost.lowered > 1e30);
}
