// Uses backend descriptors correctly and incorrectly, without a device, and prints the results of a libcudnn. The real
// and the emulated library must print the same. usage: statuses LIBRARY
#include <cudnn.h>

#include <dlfcn.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace {

using Descriptor = cudnnBackendDescriptor_t;
using Name = cudnnBackendAttributeName_t;
using Dims = std::vector<int64_t>;

decltype(&cudnnBackendCreateDescriptor) createDescriptor;
decltype(&cudnnBackendDestroyDescriptor) destroyDescriptor;
decltype(&cudnnBackendInitialize) initializeDescriptor;
decltype(&cudnnBackendSetAttribute) setAttribute;
decltype(&cudnnBackendGetAttribute) getAttribute;
decltype(&cudnnBackendFinalize) finalize;
decltype(&cudnnBackendExecute) execute;

void say(const std::string &what, int64_t answer)
{
	std::printf("%s: %ld\n", what.c_str(), answer);
}

Descriptor make(int type)
{
	Descriptor made = nullptr;
	createDescriptor(static_cast<cudnnBackendDescriptorType_t>(type), &made);
	return made;
}

// One attribute and a value to set. The value can have many types, so that wrong ones are easily made.
struct Setting {
	int name;
	int type;
	std::vector<std::byte> bytes;
	int64_t count;

	template <typename T>
	Setting(int which, int kind, std::vector<T> values)
	    : name(which), type(kind), bytes(values.size() * sizeof(T)), count(static_cast<int64_t>(values.size()))
	{
		for (size_t i = 0; i < values.size(); ++i)
			reinterpret_cast<T *>(bytes.data())[i] = values[i];
	}
	Setting(int which, const Dims &values) : Setting(which, CUDNN_TYPE_INT64, values) {}
	Setting(int which, Descriptor value) : Setting(which, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{value}) {}
	cudnnStatus_t to(Descriptor where) const
	{
		return setAttribute(where, static_cast<Name>(name), static_cast<cudnnBackendAttributeType_t>(type), count,
		                    bytes.data());
	}
};

Setting typed(int name, cudnnDataType_t type)
{
	return {name, CUDNN_TYPE_DATA_TYPE, std::vector{type}};
}

Setting flag(int name, bool value)
{
	return {name, CUDNN_TYPE_BOOLEAN, std::vector<char>{value}};
}

// With all settings except those whose names `other` has, and those of `other`. Prints the errors.
Descriptor with(const std::string &what, int type, const std::vector<Setting> &usual,
                const std::vector<Setting> &other = {}, int without = -1)
{
	Descriptor made = make(type);
	const auto isReplaced = [&](const Setting &setting) {
		for (const Setting &one : other)
			if (one.name == setting.name)
				return true;
		return setting.name == without;
	};
	for (const Setting &setting : usual)
		if (!isReplaced(setting))
			if (cudnnStatus_t status = setting.to(made))
				say(what + " sets " + std::to_string(setting.name), status);
	for (const Setting &setting : other)
		if (setting.count > 0)
			if (cudnnStatus_t status = setting.to(made))
				say(what + " sets " + std::to_string(setting.name), status);
	say(what, finalize(made));
	return made;
}

std::vector<Setting> tensorOf(int64_t uid, const Dims &dims, const Dims &strides,
                              cudnnDataType_t type = CUDNN_DATA_FLOAT)
{
	return {typed(CUDNN_ATTR_TENSOR_DATA_TYPE, type),
	        {CUDNN_ATTR_TENSOR_DIMENSIONS, dims},
	        {CUDNN_ATTR_TENSOR_STRIDES, strides},
	        {CUDNN_ATTR_TENSOR_UNIQUE_ID, Dims{uid}},
	        {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Dims{16}}};
}

Dims packed(const Dims &dims)
{
	Dims strides(dims.size(), 1);
	for (size_t i = dims.size() - 1; i > 0; --i)
		strides[i - 1] = strides[i] * dims[i];
	return strides;
}

Descriptor tensor(int64_t uid, const Dims &dims, bool isVirtual = false, cudnnDataType_t type = CUDNN_DATA_FLOAT)
{
	Descriptor made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	for (const Setting &setting : tensorOf(uid, dims, packed(dims), type))
		setting.to(made);
	if (isVirtual)
		flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true).to(made);
	finalize(made);
	return made;
}

Descriptor made(int type, const std::vector<Setting> &settings)
{
	Descriptor one = make(type);
	for (const Setting &setting : settings)
		setting.to(one);
	finalize(one);
	return one;
}

constexpr auto tensorType = CUDNN_BACKEND_TENSOR_DESCRIPTOR;

template <typename T>
void get(const std::string &what, Descriptor from, int name, int type, int64_t room, bool hasArray = true)
{
	std::vector<T> values(64);
	int64_t count = -1;
	const cudnnStatus_t status =
	    getAttribute(from, static_cast<Name>(name), static_cast<cudnnBackendAttributeType_t>(type), room, &count,
	                 hasArray ? values.data() : nullptr);
	say("get " + what, status);
	if (status == CUDNN_STATUS_SUCCESS) {
		say("get " + what + " count", count);
		if (hasArray && room > 0 && count > 0)
			say("get " + what + " first", static_cast<int64_t>(values[0]));
	}
}

void anything()
{
	Descriptor one = nullptr;
	for (int type : {-1, 44, 99})
		say("create unknown " + std::to_string(type),
		    createDescriptor(static_cast<cudnnBackendDescriptorType_t>(type), &one));
	for (int type = 0; type < 44; ++type) {
		one = nullptr;
		say("create " + std::to_string(type), createDescriptor(static_cast<cudnnBackendDescriptorType_t>(type), &one));
		if (!one)
			continue;
		say("initialize " + std::to_string(type), initializeDescriptor(one));
		if (type != CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) // real: NOT_SUPPORTED
			say("set an unknown attribute of " + std::to_string(type), Setting(777, Dims{1}).to(one));
		say("destroy " + std::to_string(type), destroyDescriptor(one));
	}
	say("destroy null", destroyDescriptor(nullptr));
	say("initialize null", initializeDescriptor(nullptr));
	say("finalize null", finalize(nullptr));
	say("set on null", Setting(CUDNN_ATTR_TENSOR_UNIQUE_ID, Dims{1}).to(nullptr));
	get<int64_t>("of null", nullptr, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1);
	say("execute nulls", execute(nullptr, nullptr, nullptr));
}

void tensors()
{
	const Dims dims{2, 3, 4, 5};
	const auto usual = tensorOf(1, dims, packed(dims));
	const auto one = [&](const std::string &what, const std::vector<Setting> &other, int without = -1) {
		return with("tensor " + what, tensorType, usual, other, without);
	};
	Descriptor good = one("good", {});
	say("tensor finalized twice", finalize(good));
	say("tensor set when finalized", usual[0].to(good));
	for (const Setting &setting : usual)
		one("without " + std::to_string(setting.name), {}, setting.name);
	one("negative stride", {{CUDNN_ATTR_TENSOR_STRIDES, Dims{60, 20, 5, -1}}});
	one("stride 0", {{CUDNN_ATTR_TENSOR_STRIDES, Dims{60, 20, 0, 1}}});
	one("overlapping", {{CUDNN_ATTR_TENSOR_STRIDES, Dims{10, 20, 5, 1}}});
	one("dim 0", {{CUDNN_ATTR_TENSOR_DIMENSIONS, Dims{2, 0, 4, 5}}});
	one("dim -1", {{CUDNN_ATTR_TENSOR_DIMENSIONS, Dims{2, -1, 4, 5}}});
	one("fewer strides", {{CUDNN_ATTR_TENSOR_STRIDES, Dims{20, 5, 1}}});
	one("rank 1", {{CUDNN_ATTR_TENSOR_DIMENSIONS, Dims{7}}, {CUDNN_ATTR_TENSOR_STRIDES, Dims{1}}});
	one("rank 8", {{CUDNN_ATTR_TENSOR_DIMENSIONS, Dims(8, 1)}, {CUDNN_ATTR_TENSOR_STRIDES, Dims(8, 1)}});
	one("rank 9", {{CUDNN_ATTR_TENSOR_DIMENSIONS, Dims(9, 1)}, {CUDNN_ATTR_TENSOR_STRIDES, Dims(9, 1)}});
	for (int64_t alignment : {-4, 0, 1, 2, 3, 4, 6, 12, 64, 1024})
		one("alignment " + std::to_string(alignment), {{CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Dims{alignment}}});
	one("one element by value", {{CUDNN_ATTR_TENSOR_DIMENSIONS, Dims(4, 1)},
	                             {CUDNN_ATTR_TENSOR_STRIDES, Dims(4, 1)},
	                             flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true)});
	one("type INT32", {{CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_INT32, std::vector<int>{0}}});
	one("two uids", {{CUDNN_ATTR_TENSOR_UNIQUE_ID, Dims{1, 2}}});
	one("virtual", {flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true)});
	one("by value", {flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true)});
	one("virtual by value", {flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true), flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true)});
	one("a convolution's attribute", {typed(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)});
	one("vectors", {{CUDNN_ATTR_TENSOR_VECTOR_COUNT, Dims{4}}, {CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, Dims{1}}});
	Descriptor open = make(tensorType);
	say("tensor set with null array", setAttribute(open, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, nullptr));
	const int64_t number = 1;
	say("tensor set with count 0", setAttribute(open, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 0, &number));
	say("tensor set with count -1", setAttribute(open, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, -1, &number));
	get<int64_t>("tensor unfinalized", open, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1);
	get<int64_t>("tensor dims length", good, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 0, false);
	get<int64_t>("tensor dims", good, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 8);
	get<int64_t>("tensor two dims", good, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 2);
	get<int64_t>("tensor strides", good, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 8);
	get<int64_t>("tensor uid", good, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1);
	get<int64_t>("tensor uid without array", good, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, false);
	get<int>("tensor type", good, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1);
	get<int64_t>("tensor type as INT64", good, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_INT64, 1);
	get<int64_t>("tensor alignment", good, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1);
	get<char>("tensor virtual", good, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1);
	get<char>("tensor by value", good, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1);
	get<int64_t>("tensor vector count", good, CUDNN_ATTR_TENSOR_VECTOR_COUNT, CUDNN_TYPE_INT64, 1);
	get<int64_t>("tensor unknown", good, 777, CUDNN_TYPE_INT64, 1);
	say("tensor initialized when finalized", initializeDescriptor(good));
	get<int64_t>("tensor initialized", good, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1);
}

const std::vector<Setting> &convolutionSettings()
{
	static const std::vector<Setting> settings{
	    {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Dims{2}},
	    typed(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT),
	    {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, std::vector{CUDNN_CROSS_CORRELATION}},
	    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Dims{1, 1}},
	    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Dims{1, 1}},
	    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Dims{1, 1}},
	    {CUDNN_ATTR_CONVOLUTION_DILATIONS, Dims{1, 1}}};
	return settings;
}

void convolutions()
{
	const auto one = [](const std::string &what, const std::vector<Setting> &other, int without = -1) {
		return with("convolution " + what, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, convolutionSettings(), other, without);
	};
	Descriptor good = one("good", {});
	for (const Setting &setting : convolutionSettings())
		one("without " + std::to_string(setting.name), {}, setting.name);
	for (int type = 0; type < 13; ++type)
		one("computes in " + std::to_string(type),
		    {typed(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, static_cast<cudnnDataType_t>(type))});
	one("mode 2", {{CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, std::vector<int>{2}}});
	one("pad -1", {{CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Dims{-1, 1}}});
	one("three pads", {{CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Dims{1, 1, 1}}});
	one("one pad", {{CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Dims{1}}});
	one("stride 0", {{CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Dims{0, 1}}});
	one("dilation 0", {{CUDNN_ATTR_CONVOLUTION_DILATIONS, Dims{0, 1}}});
	for (int64_t spatial : {0, 1, 3, 6, 7})
		one("spatial " + std::to_string(spatial), {{CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Dims{spatial}}});
	get<int64_t>("convolution pads", good, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 8);
	get<int64_t>("convolution spatial", good, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1);

	// Operations: [batch, channels, image], [filters, channels, 3 x 3].
	Descriptor open = make(tensorType);
	Descriptor strided = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	const Dims image{2, 4, 8, 8}, filter{6, 4, 3, 3}, output{2, 6, 8, 8};
	const std::vector<Setting> forward{
	    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensor(1, image)},
	    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tensor(2, filter)},
	    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, tensor(3, output)},
	    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, good},
	    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, std::vector<float>{1}},
	    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, std::vector<float>{0}}};
	const auto operation = [&](const std::string &what, const std::vector<Setting> &other, int without = -1) {
		return with("operation " + what, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, forward, other,
		            without);
	};
	enum { alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, beta, description, w, x, y };
	operation("good", {});
	for (const Setting &setting : forward)
		operation("without " + std::to_string(setting.name), {}, setting.name);
	operation("open tensor", {{x, open}});
	operation("open convolution", {{description, strided}});
	operation("a tensor as its convolution", {{description, tensor(1, image)}});
	operation("two tensors", {{x, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{tensor(1, image), tensor(1, image)}}});
	operation("null tensor", {{x, static_cast<Descriptor>(nullptr)}});
	operation("alpha of INT64", {{alpha, Dims{1}}});
	operation("alpha of DOUBLE", {{alpha, CUDNN_TYPE_DOUBLE, std::vector<double>{1}}});
	operation("filter with gaps",
	          {{w, made(CUDNN_BACKEND_TENSOR_DESCRIPTOR, tensorOf(2, filter, Dims{40, 10, 3, 1}, CUDNN_DATA_FLOAT))}});
	operation("other channels", {{x, tensor(1, {2, 5, 8, 8})}});
	operation("groups", {{x, tensor(1, {2, 8, 8, 8})}});
	operation("filters and groups", {{x, tensor(1, {2, 16, 8, 8})}});
	operation("other batch", {{y, tensor(3, {3, 6, 8, 8})}});
	operation("other filters", {{y, tensor(3, {2, 5, 8, 8})}});
	operation("other image", {{y, tensor(3, {2, 6, 7, 8})}});
	operation("rank 3", {{x, tensor(1, {2, 4, 8})}, {w, tensor(2, {6, 4, 3})}, {y, tensor(3, {2, 6, 8})}});
	operation("rank 5",
	          {{x, tensor(1, {2, 4, 8, 8, 8})}, {w, tensor(2, {6, 4, 3, 3, 3})}, {y, tensor(3, {2, 6, 8, 8, 8})}});
	operation("types", {{x, tensor(1, image, false, CUDNN_DATA_HALF)}});
	operation("int8", {{x, tensor(1, image, false, CUDNN_DATA_INT8)}});
	operation("one uid", {{w, tensor(1, filter)}});
	Descriptor overlapping = made(tensorType, tensorOf(1, image, {8, 16, 2, 1}));
	operation("overlapping x", {{x, overlapping}});
	operation("virtual y", {{y, tensor(3, output, true)}});
	operation("virtual y and beta", {{y, tensor(3, output, true)}, {beta, CUDNN_TYPE_FLOAT, std::vector<float>{1}}});
	// The state when the attribute was set counts: a tensor that is finalized later is not valid, one that is destroyed
	// later is.
	Descriptor late = make(tensorType), early = tensor(1, image);
	for (const Setting &setting : tensorOf(1, image, packed(image)))
		setting.to(late);
	Descriptor made = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
	for (const Setting &setting : forward)
		setting.to(made);
	say("operation sets early", Setting(x, early).to(made));
	destroyDescriptor(early);
	say("operation of a destroyed tensor", finalize(made));
	made = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
	for (const Setting &setting : forward)
		setting.to(made);
	say("operation sets late", Setting(x, late).to(made));
	finalize(late);
	say("operation of a late tensor", finalize(made));
	const std::vector<Setting> data{{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, tensor(1, image)},
	                                {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, tensor(2, filter)},
	                                {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, tensor(3, output)},
	                                {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, good}};
	constexpr auto dataType = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
	with("backward data", dataType, data);
	with("backward data, other dx", dataType, data,
	     {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, tensor(1, {2, 4, 9, 8})}});
	for (const Setting &setting : data)
		with("backward data without " + std::to_string(setting.name), dataType, data, {}, setting.name);
}

void products()
{
	constexpr auto type = CUDNN_BACKEND_MATMUL_DESCRIPTOR;
	with("matmul description without type", type, {});
	for (int compute : {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_INT32, CUDNN_DATA_BFLOAT16})
		with("matmul description of " + std::to_string(compute), type,
		     {typed(CUDNN_ATTR_MATMUL_COMP_TYPE, static_cast<cudnnDataType_t>(compute))});
	Descriptor good = made(type, {typed(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT)});
	const std::vector<Setting> usual{{CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensor(1, {2, 3, 4})},
	                                 {CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensor(2, {2, 4, 5})},
	                                 {CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensor(3, {2, 3, 5})},
	                                 {CUDNN_ATTR_OPERATION_MATMUL_DESC, good}};
	const auto one = [&](const std::string &what, const std::vector<Setting> &other, int without = -1) {
		with("matmul " + what, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, usual, other, without);
	};
	one("good", {});
	for (const Setting &setting : usual)
		one("without " + std::to_string(setting.name), {}, setting.name);
	enum { a = CUDNN_ATTR_OPERATION_MATMUL_ADESC, b, c };
	one("other k", {{b, tensor(2, {2, 5, 5})}});
	one("other m", {{c, tensor(3, {2, 4, 5})}});
	one("other n", {{c, tensor(3, {2, 3, 4})}});
	one("broadcast a", {{a, tensor(1, {1, 3, 4})}});
	one("broadcast b", {{b, tensor(2, {1, 4, 5})}});
	one("other batch", {{b, tensor(2, {3, 4, 5})}});
	one("rank 2", {{a, tensor(1, {3, 4})}, {b, tensor(2, {4, 5})}, {c, tensor(3, {3, 5})}});
	one("rank 4", {{a, tensor(1, {2, 2, 3, 4})}, {b, tensor(2, {2, 2, 4, 5})}, {c, tensor(3, {2, 2, 3, 5})}});
	one("ranks", {{a, tensor(1, {3, 4})}});
}

Descriptor pointwise(int mode)
{
	return made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
	            {{CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector<int>{mode}},
	             typed(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)});
}

void pointwises()
{
	const std::vector<Setting> description{
	    {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector<int>{CUDNN_POINTWISE_ADD}},
	    typed(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)};
	constexpr auto type = CUDNN_BACKEND_POINTWISE_DESCRIPTOR;
	with("pointwise good", type, description);
	for (const Setting &setting : description)
		with("pointwise without " + std::to_string(setting.name), type, description, {}, setting.name);
	with("pointwise mode 99", type, description,
	     {{CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector<int>{99}}});
	with("pointwise clip", type, description,
	     {{CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, std::vector<double>{0}}});
	with("pointwise clip of FLOAT", type, description,
	     {{CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_FLOAT, std::vector<float>{0}}});

	enum { x = CUDNN_ATTR_OPERATION_POINTWISE_XDESC, b, y, alpha1, alpha2 };
	const Dims dims{2, 6, 8, 8};
	const auto one = [&](const std::string &what, int mode, const std::vector<Setting> &other, int without = -1) {
		with("elements " + what, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
		     {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise(mode)},
		      {x, tensor(1, dims)},
		      {b, tensor(2, dims)},
		      {y, tensor(3, dims)}},
		     other, without);
	};
	for (int mode : {CUDNN_POINTWISE_ADD, CUDNN_POINTWISE_MUL, CUDNN_POINTWISE_IDENTITY, CUDNN_POINTWISE_RELU_FWD,
	                 CUDNN_POINTWISE_GELU_FWD}) {
		one(std::to_string(mode), mode, {});
		for (int missing : {static_cast<int>(x), static_cast<int>(b), static_cast<int>(y),
		                    static_cast<int>(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)})
			one(std::to_string(mode) + " without " + std::to_string(missing), mode, {}, missing);
	}
	one("broadcast b", CUDNN_POINTWISE_ADD, {{b, tensor(2, {1, 6, 1, 1})}});
	one("scalar b", CUDNN_POINTWISE_ADD, {{b, tensor(2, {1, 1, 1, 1})}});
	one("broadcast x", CUDNN_POINTWISE_ADD, {{x, tensor(1, {1, 6, 1, 1})}});
	one("other b", CUDNN_POINTWISE_ADD, {{b, tensor(2, {1, 5, 1, 1})}});
	one("other rank", CUDNN_POINTWISE_ADD, {{b, tensor(2, {6})}});
	one("other y", CUDNN_POINTWISE_ADD, {{y, tensor(3, {2, 6, 8, 7})}});
	one("alpha", CUDNN_POINTWISE_ADD, {{alpha1, CUDNN_TYPE_FLOAT, std::vector<float>{2}}});
	one("alpha of DOUBLE", CUDNN_POINTWISE_ADD, {{alpha2, CUDNN_TYPE_DOUBLE, std::vector<double>{2}}});
}

void reductions()
{
	const std::vector<Setting> description{
	    {CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, std::vector{CUDNN_REDUCE_TENSOR_MAX}},
	    typed(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)};
	for (int operation = CUDNN_REDUCE_TENSOR_ADD; operation <= CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS + 1; ++operation)
		with("reduction " + std::to_string(operation), CUDNN_BACKEND_REDUCTION_DESCRIPTOR, description,
		     {{CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, std::vector{operation}}});
	for (const Setting &setting : description)
		with("reduction without " + std::to_string(setting.name), CUDNN_BACKEND_REDUCTION_DESCRIPTOR, description, {},
		     setting.name);
	enum { x = CUDNN_ATTR_OPERATION_REDUCTION_XDESC, y, what };
	const Dims dims{2, 6, 8, 8};
	const std::vector<Setting> usual{{what, made(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, description)},
	                                 {x, tensor(1, dims)},
	                                 {y, tensor(2, {1, 1, 1, 1})}};
	const auto one = [&](const std::string &name, const std::vector<Setting> &other, int without = -1) {
		with("reduced " + name, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, usual, other, without);
	};
	one("good", {});
	for (const Setting &setting : usual)
		one("without " + std::to_string(setting.name), {}, setting.name);
	for (const Dims &other :
	     {Dims{1, 6, 1, 1}, Dims{2, 6, 8, 8}, Dims{1, 3, 1, 1}, Dims{1}, Dims{1, 1, 1, 1, 1}, Dims{4, 6, 8, 8}}) {
		std::string text = "to";
		for (const int64_t dim : other)
			text += " " + std::to_string(dim);
		one(text, {{y, tensor(2, other)}});
	}
	one("with an open description", {{what, make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR)}});
}

void concatenations()
{
	enum { axis = CUDNN_ATTR_OPERATION_CONCAT_AXIS, inputs, place, output };
	const auto both = [](const std::vector<Descriptor> &list) {
		return Setting(inputs, CUDNN_TYPE_BACKEND_DESCRIPTOR, list);
	};
	Descriptor first = tensor(1, {2, 6, 8, 8}), second = tensor(2, {2, 4, 8, 8});
	const std::vector<Setting> usual{
	    {axis, Dims{1}}, both({first, second}), {place, Dims{1}}, {output, tensor(3, {2, 10, 8, 8})}};
	const auto one = [&](const std::string &name, const std::vector<Setting> &other, int without = -1) {
		with("concatenation " + name, CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR, usual, other, without);
	};
	one("good", {});
	for (const Setting &setting : usual)
		one("without " + std::to_string(setting.name), {}, setting.name);
	for (const int64_t value : {-2, -1, 0, 1, 2, 4}) {
		one("along " + std::to_string(value), {{axis, Dims{value}}});
		one("in place " + std::to_string(value), {{place, Dims{value}}});
	}
	one("of one", {both({first}), {output, tensor(3, {2, 6, 8, 8})}, {place, Dims{0}}});
	one("of three", {both({first, second, tensor(4, {2, 1, 8, 8})}), {output, tensor(3, {2, 11, 8, 8})}});
	one("of another sum", {{output, tensor(3, {2, 11, 8, 8})}});
	one("of other dimensions", {both({first, tensor(2, {2, 4, 8, 7})})});
	one("of another rank", {both({first, tensor(2, {2, 4, 8})})});
	one("to another rank", {{output, tensor(3, {2, 10, 8})}});
	one("with an open tensor", {both({first, make(tensorType)})});
	one("of another type", {both({first, tensor(2, {2, 4, 8, 8}, false, CUDNN_DATA_HALF)})});
}

constexpr char deviceText[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
    "\"multiProcessorCount\":132,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
    "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":85899345920,\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,"
    "\"l2CacheSize\":52428800,\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000,\"deviceName\":\"H100\"}";

Setting text(int name, const std::string &value)
{
	return {name, CUDNN_TYPE_CHAR, std::vector<char>(value.c_str(), value.c_str() + value.size() + 1)};
}

void plans()
{
	const Dims image{2, 64, 8, 8}, filter{64, 64, 3, 3};
	Descriptor convolution = made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, convolutionSettings());
	const auto node = [&](int64_t from, int64_t to, bool isVirtual = false) {
		return made(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
		            {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensor(from, image)},
		             {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tensor(2, filter)},
		             {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, tensor(to, image, isVirtual)},
		             {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution}});
	};
	const auto relu = [&](int64_t from, int64_t to, bool isVirtual) {
		return made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
		            {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise(CUDNN_POINTWISE_RELU_FWD)},
		             {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensor(from, image, isVirtual)},
		             {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensor(to, image)}});
	};
	const auto graphOf = [&](const std::string &what, const std::vector<Descriptor> &nodes) {
		return with("graph " + what, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, {},
		            {{CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, nodes}});
	};
	Descriptor graph = graphOf("good", {node(1, 3)});
	graphOf("of nothing", {});
	graphOf("open operation", {make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)});
	graphOf("of two", {node(1, 3), node(4, 5)});
	graphOf("of a chain", {node(1, 3, true), relu(3, 4, true)});
	graphOf("of a chain backwards", {relu(3, 4, true), node(1, 3, true)});
	graphOf("with a virtual result", {node(1, 3, true)});
	graphOf("with a virtual source", {relu(3, 4, true)});
	graphOf("with two writers", {node(1, 3), node(4, 3)});
	graphOf("with a circle", {relu(3, 4, false), relu(4, 3, false)});
	get<int64_t>("graph count", graph, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 1);
	Descriptor reader = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
	int64_t count = -1;
	say("graph operations",
	    getAttribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &reader));

	constexpr auto deviceType = CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR;
	enum { json = CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION };
	Descriptor device = with("device good", deviceType, {text(json, deviceText)});
	with("device of nothing", deviceType, {});
	with("device garbage", deviceType, {text(json, "{{{")});
	with("device incomplete", deviceType, {text(json, "{\"warpSize\":32}")});
	get<char>("device text length", device, json, CUDNN_TYPE_CHAR, 0, false);

	enum { heuristicGraph = CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, mode = CUDNN_ATTR_ENGINEHEUR_MODE };
	const std::vector<Setting> heuristic{{heuristicGraph, graph},
	                                     {mode, CUDNN_TYPE_HEUR_MODE, std::vector{CUDNN_HEUR_MODE_A}},
	                                     {CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device}};
	constexpr auto heuristicType = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
	with("heuristic good", heuristicType, heuristic);
	with("heuristic without mode", heuristicType, heuristic, {}, mode);
	with("heuristic without graph", heuristicType, heuristic, {}, heuristicGraph);
	with("heuristic mode 9", heuristicType, heuristic, {{mode, CUDNN_TYPE_HEUR_MODE, std::vector<int>{9}}});
	with("heuristic of an open graph", heuristicType, heuristic,
	     {{heuristicGraph, make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)}});

	enum { index = CUDNN_ATTR_ENGINE_GLOBAL_INDEX, engineGraph = CUDNN_ATTR_ENGINE_OPERATION_GRAPH };
	const std::vector<Setting> engineSettings{
	    {engineGraph, graph}, {index, Dims{0}}, {CUDNN_ATTR_ENGINE_DEVICEPROP, device}};
	constexpr auto engineType = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
	Descriptor engine = with("engine good", engineType, engineSettings);
	with("engine without graph", engineType, engineSettings, {}, engineGraph);
	with("engine without index", engineType, engineSettings, {}, index);
	with("engine without device", engineType, engineSettings, {}, CUDNN_ATTR_ENGINE_DEVICEPROP);
	for (int64_t number : {-1, 1000})
		with("engine " + std::to_string(number), engineType, engineSettings, {{index, Dims{number}}});
	get<int64_t>("engine index", engine, index, CUDNN_TYPE_INT64, 1);
	get<int>("engine notes", engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 8);
	get<int>("engine behaviours", engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, 8);

	constexpr auto configType = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
	Descriptor config = with("config good", configType, {{CUDNN_ATTR_ENGINECFG_ENGINE, engine}});
	get<int64_t>("config workspace", config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1);
	get<int>("config shared memory", config, CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, CUDNN_TYPE_INT32, 1);

	constexpr auto planType = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
	enum { planConfig = CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, planJson = 405 };
	const std::vector<Setting> planSettings{{planConfig, config}, {CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device}};
	Descriptor plan = with("plan good", planType, planSettings);
	with("plan without device", planType, planSettings, {}, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
	with("plan of an open config", planType, planSettings, {{planConfig, make(configType)}});
	get<int64_t>("plan workspace", plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1);
	get<char>("plan text", plan, planJson, CUDNN_TYPE_CHAR, 2);

	constexpr auto packType = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
	enum { uids = CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, pointers, intermediates, workspace };
	const auto pack = [&](const std::string &what, const Dims &names, size_t count, bool hasWorkspace = true) {
		std::vector<Setting> settings{{uids, names},
		                              {pointers, CUDNN_TYPE_VOID_PTR, std::vector<void *>(count, &count)}};
		if (hasWorkspace)
			settings.emplace_back(workspace, CUDNN_TYPE_VOID_PTR, std::vector<void *>{nullptr});
		return with("pack " + what, packType, settings);
	};
	Descriptor variants = pack("good", {1, 2, 3}, 3);
	pack("fewer pointers", {1, 2, 3}, 2);
	pack("a uid twice", {1, 1, 3}, 3);
	pack("without workspace", {1, 2, 3}, 3, false);
	with("pack of nothing", packType, {});
	get<int64_t>("pack uids", variants, uids, CUDNN_TYPE_INT64, 3);
	get<int64_t>("pack pointers", variants, pointers, CUDNN_TYPE_VOID_PTR, 3);
	get<int64_t>("pack workspace", variants, workspace, CUDNN_TYPE_VOID_PTR, 1);
	say("execute without handle", execute(nullptr, plan, variants));
}

template <typename Function>
void find(void *library, const char *name, Function &function)
{
	function = reinterpret_cast<Function>(dlsym(library, name));
}

} // namespace

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
	if (!library) {
		std::fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "usage: statuses LIBRARY");
		return 77;
	}
	find(library, "cudnnBackendCreateDescriptor", createDescriptor);
	find(library, "cudnnBackendDestroyDescriptor", destroyDescriptor);
	find(library, "cudnnBackendInitialize", initializeDescriptor);
	find(library, "cudnnBackendSetAttribute", setAttribute);
	find(library, "cudnnBackendGetAttribute", getAttribute);
	find(library, "cudnnBackendFinalize", finalize);
	find(library, "cudnnBackendExecute", execute);
	std::setvbuf(stdout, nullptr, _IOLBF, 0);
	anything();
	tensors();
	convolutions();
	products();
	pointwises();
	reductions();
	concatenations();
	plans();
}
