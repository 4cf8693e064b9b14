// libautoamp-kernels.so: registers autoamp's own kernels with the emulated device, compiled from the source text that
// nvcc compiles. Loaded with the device; the kernels run on its workers.
#include "tools/emulated/simt.h"

#include "kernels/audit.cuh"
#include "kernels/cast.cuh"
#include "kernels/gradient.cuh"
#include "tools/emulated/kernel.h"

#include <algorithm>
#include <vector>

namespace {

using autoamp::kernels::AuditCall, autoamp::kernels::AuditOperand, autoamp::kernels::Events,
    autoamp::kernels::Gradients, autoamp::kernels::ScalerUpdate, autoamp::kernels::Parameters,
    autoamp::kernels::Placement, autoamp::kernels::Probe, autoamp::kernels::Rounded, autoamp::kernels::Runs,
    autoamp::kernels::Scalars, autoamp::kernels::Scaling, autoamp::kernels::Scatter, autoamp::kernels::Sum,
    autoamp::kernels::TensorParameters;

// Copies an array of device pointers as host pointers; `views` owns the copy.
template <class T>
T *const *viewed(T *const *array, int64_t count, std::vector<T *> &views)
{
	T *const *const pointers = emulated::deviceView(array);
	views.resize(count);
	std::transform(pointers, pointers + count, views.begin(), [](T *pointer) { return emulated::deviceView(pointer); });
	return views.data();
}

// Converts the device addresses of the parameters to host addresses, once per launch.
struct OnHost {
	std::vector<const float *> sources[autoamp::kernels::operands], added, audited[4];
	std::vector<float *> targets;

	void operator()(Events &p)
	{
		p.ring = emulated::deviceView(p.ring);
		p.sites = emulated::deviceView(p.sites);
	}
	void operator()(Scaling &p)
	{
		(*this)(static_cast<Events &>(p));
		p.scratch = emulated::deviceView(p.scratch);
		p.records = emulated::deviceView(p.records);
		p.predictions = emulated::deviceView(p.predictions);
		p.alpha = emulated::deviceView(p.alpha);
		p.beta = emulated::deviceView(p.beta);
		p.keptRecords = emulated::deviceView(p.keptRecords);
		for (auto &kept : p.kept) {
			kept.state = emulated::deviceView(kept.state);
			kept.facts = emulated::deviceView(kept.facts);
		}
	}
	void operator()(Parameters &p)
	{
		(*this)(static_cast<Scaling &>(p));
		for (int i = 0; i < autoamp::kernels::operands; ++i) {
			auto &operand = p.operand[i];
			if (operand.isArray)
				operand.source = reinterpret_cast<const float *>(
				    viewed(reinterpret_cast<const float *const *>(operand.source), operand.batch, sources[i]));
			else
				operand.source = emulated::deviceView(operand.source);
			operand.target = emulated::deviceView(operand.target);
		}
		p.sums = emulated::deviceView(p.sums);
		p.strict.memory = emulated::deviceView(p.strict.memory);
		p.strict.isUncured = emulated::deviceView(p.strict.isUncured);
	}
	void operator()(TensorParameters &p)
	{
		(*this)(static_cast<Scaling &>(p));
		for (auto &tensor : p.tensor) {
			tensor.source = emulated::deviceView(tensor.source);
			tensor.target = emulated::deviceView(tensor.target);
		}
	}
	void operator()(AuditCall &p)
	{
		(*this)(static_cast<Events &>(p));
		AuditOperand *const all[] = {&p.a, &p.b, &p.c, &p.d};
		for (int i = 0; i < 4; ++i) {
			if (all[i]->isArray)
				all[i]->source = reinterpret_cast<const float *>(
				    viewed(reinterpret_cast<const float *const *>(all[i]->source), p.batch, audited[i]));
			else
				all[i]->source = emulated::deviceView(all[i]->source);
		}
		p.alpha = emulated::deviceView(p.alpha);
		p.beta = emulated::deviceView(p.beta);
		p.bias = emulated::deviceView(p.bias);
		p.reference = emulated::deviceView(p.reference);
		p.state = emulated::deviceView(p.state);
		p.sums = emulated::deviceView(p.sums);
	}
	void operator()(Placement &p)
	{
		p.result = emulated::deviceView(p.result);
		p.target = emulated::deviceView(p.target);
		p.added = emulated::deviceView(p.added);
		p.bias = emulated::deviceView(p.bias);
	}
	void operator()(Rounded &r) { r.target = emulated::deviceView(r.target); }
	void operator()(Runs &r)
	{
		(*this)(static_cast<Events &>(r));
		for (int i = 0; i < r.count; ++i) {
			r.run[i].source = emulated::deviceView(r.run[i].source);
			r.run[i].target = emulated::deviceView(r.run[i].target);
		}
	}
	void operator()(Scatter &s)
	{
		s.product = emulated::deviceView(s.product);
		if (s.sources)
			s.sources = viewed(s.sources, s.batch, added);
		s.targets = viewed(s.targets, s.batch, targets);
		s.beta = emulated::deviceView(s.beta);
	}
	void operator()(Sum &s)
	{
		s.source = emulated::deviceView(s.source);
		s.target = emulated::deviceView(s.target);
	}
	void operator()(Probe &p)
	{
		p.ring = emulated::deviceView(p.ring);
		p.scale = emulated::deviceView(p.scale);
		p.tracker = emulated::deviceView(p.tracker);
		p.hysteresis = emulated::deviceView(p.hysteresis);
		p.foundInf = emulated::deviceView(p.foundInf);
	}
	void operator()(Scalars &s)
	{
		s.alpha = emulated::deviceView(s.alpha);
		s.beta = emulated::deviceView(s.beta);
		s.widened = emulated::deviceView(s.widened);
	}
	void operator()(Gradients &g)
	{
		g.state = emulated::deviceView(g.state);
		g.found = emulated::deviceView(g.found);
		for (uint32_t i = 0; i < g.count; ++i)
			g.tensor[i].data = emulated::deviceView(g.tensor[i].data);
	}
	void operator()(ScalerUpdate &u)
	{
		u.state = emulated::deviceView(u.state);
		u.ring = emulated::deviceView(u.ring);
	}
};

template <auto kernel, class Argument = Parameters>
void run(const emulated::Launch &launch, void **arguments)
{
	Argument argument = *static_cast<const Argument *>(arguments[0]);
	OnHost onHost;
	onHost(argument);
	simt::run(launch.grid, launch.block, [&argument] { kernel(argument); });
}

constexpr size_t sizes[] = {sizeof(Parameters)}, tensorSizes[] = {sizeof(TensorParameters)},
                 placementSizes[] = {sizeof(Placement)}, scatterSizes[] = {sizeof(Scatter)}, sumSizes[] = {sizeof(Sum)},
                 widenSizes[] = {sizeof(Scalars)}, runsSizes[] = {sizeof(Runs)}, roundedSizes[] = {sizeof(Rounded)},
                 gradientsSizes[] = {sizeof(Gradients)}, updateSizes[] = {sizeof(ScalerUpdate)},
                 auditSizes[] = {sizeof(AuditCall)}, watchSizes[] = {sizeof(Probe)};
constexpr emulated::Kernel kernels[] = {
    {"autoamp_cast_half", run<autoamp_cast_half>, sizes, 1},
    {"autoamp_cast_bfloat16", run<autoamp_cast_bfloat16>, sizes, 1},
    {"autoamp_settle", run<autoamp_settle>, sizes, 1},
    {"autoamp_mend", run<autoamp_mend>, sizes, 1},
    {"autoamp_cast_tensor_half", run<autoamp_cast_tensor_half, TensorParameters>, tensorSizes, 1},
    {"autoamp_cast_tensor_bfloat16", run<autoamp_cast_tensor_bfloat16, TensorParameters>, tensorSizes, 1},
    {"autoamp_settle_tensor", run<autoamp_settle_tensor, TensorParameters>, tensorSizes, 1},
    {"autoamp_cast_kept_half", run<autoamp_cast_kept_half>, sizes, 1},
    {"autoamp_cast_kept_bfloat16", run<autoamp_cast_kept_bfloat16>, sizes, 1},
    {"autoamp_settle_kept_half", run<autoamp_settle_kept_half>, sizes, 1},
    {"autoamp_settle_kept_bfloat16", run<autoamp_settle_kept_bfloat16>, sizes, 1},
    {"autoamp_cast_kept_half_tensor", run<autoamp_cast_kept_half_tensor, TensorParameters>, tensorSizes, 1},
    {"autoamp_cast_kept_bfloat16_tensor", run<autoamp_cast_kept_bfloat16_tensor, TensorParameters>, tensorSizes, 1},
    {"autoamp_settle_kept_half_tensor", run<autoamp_settle_kept_half_tensor, TensorParameters>, tensorSizes, 1},
    {"autoamp_settle_kept_bfloat16_tensor", run<autoamp_settle_kept_bfloat16_tensor, TensorParameters>, tensorSizes, 1},
    {"autoamp_place", run<autoamp_place, Placement>, placementSizes, 1},
    {"autoamp_round", run<autoamp_round, Rounded>, roundedSizes, 1},
    {"autoamp_runs", run<autoamp_runs, Runs>, runsSizes, 1},
    {"autoamp_scatter", run<autoamp_scatter, Scatter>, scatterSizes, 1},
    {"autoamp_sum", run<autoamp_sum, Sum>, sumSizes, 1},
    {"autoamp_widen", run<autoamp_widen, Scalars>, widenSizes, 1},
    {"autoamp_scaler_gradients", run<autoamp_scaler_gradients, Gradients>, gradientsSizes, 1},
    {"autoamp_scaler_update", run<autoamp_scaler_update, ScalerUpdate>, updateSizes, 1},
    {"autoamp_audit_before", run<autoamp_audit_before, AuditCall>, auditSizes, 1},
    {"autoamp_audit_after", run<autoamp_audit_after, AuditCall>, auditSizes, 1},
    {"autoamp_watch", run<autoamp_watch, Probe>, watchSizes, 1},
};
const emulated::Registration registration(kernels);

} // namespace
