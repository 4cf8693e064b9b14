// The contents that a weight had, and the control of the tests: a cache of converted weights that is keyed by address
// only. Contents are small integers times one power of two. Their products are exact in each type and in each order of
// the sum, so that a result shows which content it was computed from.
#pragma once

#include "harness.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <tuple>

namespace client {

using Content = std::vector<float>;

inline bool isSame(float x, float y)
{
	return x == y || (std::isnan(x) && std::isnan(y));
}

// The products of one weight, in the order of their calls.
class History
{
public:
	explicit History(Content first)
	{
		versions_.push_back({std::make_shared<const Content>(std::move(first)), 0, true});
	}

	const Content &now() const { return *versions_.back().content; }
	// isDense: so many elements differ that each sample of the weight contains one of them.
	void replace(Content next, bool isDense)
	{
		versions_.push_back({std::make_shared<const Content>(std::move(next)), products_, isDense});
		changes_++;
		// No product may be so old. One that is matches no version.
		while (versions_.size() > 2 && versions_[1].since + remembered < products_)
			versions_.erase(versions_.begin());
	}
	// `referenceOf` computes the product from a content.
	template <typename Reference>
	void judge(const Content &result, const Reference &referenceOf)
	{
		products_++;
		for (size_t i = versions_.size(); i-- > 0;) {
			const Content expected = referenceOf(*versions_[i].content);
			if (!std::equal(result.begin(), result.end(), expected.begin(), expected.end(), isSame))
				continue;
			const auto ageOf = [&](size_t next) { return products_ - versions_[next].since; };
			last_ = i + 1 < versions_.size() ? ageOf(i + 1) : 0;
			stale_ += last_ > 0;
			late_ = std::max(late_, last_);
			for (size_t next = versions_.size() - 1; next > i; next--)
				if (versions_[next].isDense)
					lateDense_ = std::max(lateDense_, ageOf(next));
			return;
		}
		unknown_++;
	}
	// products; changes; `stale`: products of an older content; `late`: most products, in a row, from a change to the
	// end of its effect; `late_dense`: the same for dense changes; `last`: age of the last product's content.
	void put(Line &line) const
	{
		line.put("products", products_).put("changes", changes_).put("stale", stale_).put("late", late_);
		line.put("late_dense", lateDense_).put("last", last_).put("unknown", unknown_);
		line.require(unknown_ == 0, "a product is that of no content of the weight");
	}

private:
	struct Version {
		std::shared_ptr<const Content> content;
		long long since; // products before it
		bool isDense;
	};
	static constexpr long long remembered = 100;

	std::vector<Version> versions_;
	long long products_ = 0, changes_ = 0, stale_ = 0, late_ = 0, lateDense_ = 0, last_ = 0, unknown_ = 0;
};

// The control, if the variable CONTROL is set: a weight is rounded to bfloat16 once, and its copy is used for as long
// as the address and the shape are the same.
class PointerCache
{
public:
	const float *operator()(const float *data, size_t count, int64_t shape)
	{
		if (!std::getenv("CONTROL"))
			return data;
		std::unique_ptr<Array> &copy = copies_[{data, count, shape}];
		if (!copy) {
			copy = std::make_unique<Array>(count);
			Content content(count);
			CHECK(cudaMemcpy(content.data(), data, count * sizeof(float), cudaMemcpyDefault));
			for (size_t i = 0; i < count; i++)
				(*copy)[i] = rounded(content[i]);
			copy->upload();
		}
		return copy->data();
	}

private:
	static float rounded(float x)
	{
		auto bits = std::bit_cast<uint32_t>(x);
		if (!std::isnan(x))
			bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
		return std::bit_cast<float>(bits);
	}
	std::map<std::tuple<const float *, size_t, int64_t>, std::unique_ptr<Array>> copies_;
};

} // namespace client
