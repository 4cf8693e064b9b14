// Weights: operands whose content does not change from product to product. Their packed bfloat16 copies are kept, and
// belong to the process. A copy is only used if it has the bits of a new conversion (docs/adr/0055). Any thread; a lock
// is held for the look-up only. A forked child starts without copies.
#pragma once

#include "src/cpu/packed.h"
#include "src/cpu/reason.h"

#include <cstddef>
#include <cstdint>

namespace autoamp::cpu {

enum class WeightMode : uint8_t {
	off,
	watched, // memory that the kernel cannot watch is converted at each call
	frozen,  // the program promises not to change kept weights
};

// The reason to believe that a copy is unchanged.
enum class WeightHow : uint8_t { none, watched, frozen };

// Result for one product.
struct WeightUse {
	WeightHow how = WeightHow::none;          // none: both operands were converted
	WeightReason reason = WeightReason::none; // why
	bool isServed = false;                    // the copy was used without any conversion
	bool isMade = false;
	bool isRecast = false;  // written parts were converted again
	bool isGivenUp = false; // the copy was dropped, because the program writes too often for a gain
	bool isRefused = false; // there was no memory for the copy; reported once for each weight
	size_t bytes = 0;       // size of the copy, also of a refused one
};

struct Weight;

// The copy for one product. Nothing changes it during the lifetime of this object.
class KeptWeight
{
public:
	// Looks up the operand, and keeps a copy if its content has not changed in the last products. Copies use at most
	// three quarters of `budget`. Without a copy, the first `patience` products are not examined.
	KeptWeight(const Operand &operand, WeightMode mode, size_t budget, uint32_t patience, WeightUse &use);
	~KeptWeight();
	KeptWeight(const KeptWeight &) = delete;
	KeptWeight &operator=(const KeptWeight &) = delete;

	// As packPanels packs the whole operand; null: convert it.
	const uint16_t *packed() const { return packed_; }
	// The content was the same in enough products. It remains true for these addresses and sizes, also without memory
	// for a copy, until the program has written it too often. False if its memory cannot be watched.
	bool isSteady() const { return isSteady_; }

private:
	void useCopy(WeightMode mode, size_t budget, uint32_t patience, WeightUse &use);

	Weight *weight_ = nullptr;
	const uint16_t *packed_ = nullptr;
	bool isSteady_ = false;
};

} // namespace autoamp::cpu
