// Spatial transformers.
#include "tools/emulated/cudnn/layer.h"

#include <cmath>

using namespace emulated::cudnn;

namespace {

// The tensors of a transformer, both packed: 2 x 3 matrices, and a position (x, y) in [-1, 1] for each pixel.
struct Shapes {
	Tensor theta, grid;
};

cudnnStatus_t shapesOf(cudnnSpatialTransformerDescriptor_t descriptor, Shapes &shapes)
{
	REFUSE_IF(!descriptor, BAD_PARAM);
	REFUSE_IF(descriptor->rank != 4 || emulated::dnn::sizeOf(descriptor->type) == 0, NOT_SUPPORTED);
	const int *dims = descriptor->dims;
	const int64_t theta[] = {dims[0], 2, 3}, grid[] = {dims[0], dims[2], dims[3], 2};
	shapes = {emulated::dnn::packed(descriptor->type, 3, theta), emulated::dnn::packed(descriptor->type, 4, grid)};
	return CUDNN_STATUS_SUCCESS;
}

// The position of a pixel; -1 and 1 are the centers of the first and last pixel.
double placeOf(int64_t index, int64_t count)
{
	return count > 1 ? 2.0 * static_cast<double>(index) / static_cast<double>(count - 1) - 1 : 0;
}

// Calls function() for each position of the grid, in order, with its image and its pixel as (x, y, 1).
template <typename Function>
void eachPlace(const Tensor &grid, Function function)
{
	for (int64_t i = 0; i < grid.count() / 2; ++i) {
		const int64_t w = i % grid.dims[2], h = i / grid.dims[2] % grid.dims[1];
		const double pixel[] = {placeOf(w, grid.dims[2]), placeOf(h, grid.dims[1]), 1};
		function(i, 2 * i / grid.countFrom(1), pixel);
	}
}

// Calls function() for each pixel inside the image next to a position, with its weight and the derivatives of the
// weight by the coordinates.
template <typename Function>
void eachNeighbour(const Tensor &x, double px, double py, Function function)
{
	const int64_t height = x.dims[2], width = x.dims[3];
	const double scaleX = static_cast<double>(width - 1) / 2, scaleY = static_cast<double>(height - 1) / 2;
	const double column = (px + 1) * scaleX, row = (py + 1) * scaleY;
	for (int dy = 0; dy < 2; ++dy)
		for (int dx = 0; dx < 2; ++dx) {
			const double c = std::floor(column) + dx, r = std::floor(row) + dy;
			const double across = 1 - std::fabs(column - c), down = 1 - std::fabs(row - r);
			if (c >= 0 && c < static_cast<double>(width) && r >= 0 && r < static_cast<double>(height))
				function(static_cast<int64_t>(r) * width + static_cast<int64_t>(c), across * down,
				         (dx ? scaleX : -scaleX) * down, (dy ? scaleY : -scaleY) * across);
		}
}

bool isSampled(cudnnSpatialTransformerDescriptor_t st, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y)
{
	return x && y && x->tensor.rank == 4 && std::equal(st->dims, st->dims + 4, y->tensor.dims) &&
	       x->tensor.dims[0] == y->tensor.dims[0] && x->tensor.dims[1] == y->tensor.dims[1] &&
	       x->tensor.type == y->tensor.type;
}

} // namespace

ENTRY(cudnnSpatialTfGridGeneratorForward, EXECUTION_FAILED, handle, stDesc, theta, grid)
{
	Shapes shapes;
	REFUSE_IF(!handleOf(handle) || !theta || !grid, BAD_PARAM);
	if (cudnnStatus_t status = shapesOf(stDesc, shapes))
		return status;
	return run(*handleOf(handle), __func__, [=](Memory &memory) {
		const Values matrices = memory.read<double>(shapes.theta, theta);
		Values places(static_cast<size_t>(shapes.grid.count()));
		eachPlace(shapes.grid, [&](int64_t place, int64_t image, const double *pixel) {
			for (int64_t i = 0; i < 6; ++i)
				places[2 * place + i / 3] += matrices[6 * image + i] * pixel[i % 3];
		});
		memory.write<double>(std::move(places), shapes.grid, grid);
	});
}

ENTRY(cudnnSpatialTfGridGeneratorBackward, EXECUTION_FAILED, handle, stDesc, dgrid, dtheta)
{
	Shapes shapes;
	REFUSE_IF(!handleOf(handle) || !dgrid || !dtheta, BAD_PARAM);
	if (cudnnStatus_t status = shapesOf(stDesc, shapes))
		return status;
	return run(*handleOf(handle), __func__, [=](Memory &memory) {
		const Values places = memory.read<double>(shapes.grid, dgrid);
		Values matrices(static_cast<size_t>(shapes.theta.count()));
		eachPlace(shapes.grid, [&](int64_t place, int64_t image, const double *pixel) {
			for (int64_t i = 0; i < 6; ++i)
				matrices[6 * image + i] += places[2 * place + i / 3] * pixel[i % 3];
		});
		memory.write<double>(std::move(matrices), shapes.theta, dtheta);
	});
}

ENTRY(cudnnSpatialTfSamplerForward, EXECUTION_FAILED, handle, stDesc, alpha, xDesc, x, grid, beta, yDesc, y)
{
	Shapes shapes;
	REFUSE_IF(!handleOf(handle) || !x || !grid || !y, BAD_PARAM);
	if (cudnnStatus_t status = shapesOf(stDesc, shapes))
		return status;
	REFUSE_IF(!isSampled(stDesc, xDesc, yDesc), BAD_PARAM);
	SCALARS(yDesc);
	const Tensor from = xDesc->tensor, to = yDesc->tensor;
	return run(*handleOf(handle), __func__, [=](Memory &memory) {
		const Values image = memory.read<double>(from, x), places = memory.read<double>(shapes.grid, grid);
		Values result(static_cast<size_t>(to.count()));
		for (int64_t i = 0; i < to.count(); ++i) {
			const int64_t plane = i / to.countFrom(2),
			              place = plane / to.dims[1] * to.countFrom(2) + i % to.countFrom(2);
			eachNeighbour(from, places[2 * place], places[2 * place + 1],
			              [&](int64_t pixel, double weight, double, double) {
				              result[i] += weight * image[plane * from.countFrom(2) + pixel];
			              });
		}
		memory.write<double>(std::move(result), to, y, a, b);
	});
}

ENTRY(cudnnSpatialTfSamplerBackward, EXECUTION_FAILED, handle, stDesc, alpha, xDesc, x, beta, dxDesc, dx, alphaDgrid,
      dyDesc, dy, grid, betaDgrid, dgrid)
{
	Shapes shapes;
	REFUSE_IF(!handleOf(handle) || !x || !dx || !dy || !grid || !dgrid || !alphaDgrid || !betaDgrid, BAD_PARAM);
	if (cudnnStatus_t status = shapesOf(stDesc, shapes))
		return status;
	REFUSE_IF(!isSampled(stDesc, xDesc, dyDesc) || !dxDesc || !dxDesc->tensor.hasSameDims(xDesc->tensor), BAD_PARAM);
	SCALARS(dxDesc);
	const double c = scalar(alphaDgrid, stDesc->type), d = scalar(betaDgrid, stDesc->type);
	const Tensor from = xDesc->tensor, to = dyDesc->tensor, back = dxDesc->tensor;
	return run(*handleOf(handle), __func__, [=](Memory &memory) {
		const Values image = memory.read<double>(from, x), places = memory.read<double>(shapes.grid, grid),
		             gradient = memory.read<double>(to, dy);
		Values images(image.size()), moves(places.size());
		for (int64_t i = 0; i < to.count(); ++i) {
			const int64_t plane = i / to.countFrom(2),
			              place = plane / to.dims[1] * to.countFrom(2) + i % to.countFrom(2);
			eachNeighbour(from, places[2 * place], places[2 * place + 1],
			              [&](int64_t pixel, double weight, double byX, double byY) {
				              const int64_t at = plane * from.countFrom(2) + pixel;
				              images[at] += weight * gradient[i];
				              moves[2 * place] += byX * image[at] * gradient[i];
				              moves[2 * place + 1] += byY * image[at] * gradient[i];
			              });
		}
		memory.write<double>(std::move(images), back, dx, a, b);
		memory.write<double>(std::move(moves), shapes.grid, dgrid, c, d);
	});
}
