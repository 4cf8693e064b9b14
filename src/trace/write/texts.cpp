#include "src/trace/write/texts.h"

namespace autoamp::trace {

uint32_t Texts::intern(const char *text)
{
	size_t length = text ? strnlen(text, kMaxString) : 0;
	if (length == kMaxString)
		while (length && (text[length] & 0xc0) == 0x80) // between characters
			length--;
	if (!length)
		return 0;
	const uint64_t hash = base::hashBytes(text, length);
	Text *known = index_.find(
	    hash, [&](const Text &other) { return other.length == length && memcmp(other.bytes, text, length) == 0; });
	if (known)
		return known->id;
	known = arena_.make<Text>(length);
	if (!known || !texts_.push(known))
		return 0;
	known->id = static_cast<uint32_t>(texts_.size());
	known->length = static_cast<uint32_t>(length);
	memcpy(known->bytes, text, length);
	index_.add(hash, known);
	return known->id;
}

bool Texts::write(uint32_t id)
{
	if (id == 0 || texts_[id - 1]->written == records_.generation())
		return true;
	Text *text = texts_[id - 1];
	auto *record = records_.append<StringRecord>(RecordType::string, text->length);
	if (!record)
		return false;
	record->id = id;
	record->length = text->length;
	memcpy(record + 1, text->bytes, text->length);
	records_.commit();
	text->written = records_.generation();
	return true;
}

} // namespace autoamp::trace
