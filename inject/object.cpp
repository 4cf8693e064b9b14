#include "inject/object.h"

namespace autoamp::front {

Object objectOf(const dl_phdr_info &info)
{
	Object object = {nullptr, info.dlpi_addr, nullptr, info.dlpi_name};
	for (int i = 0; i < info.dlpi_phnum; i++)
		if (info.dlpi_phdr[i].p_type == PT_DYNAMIC)
			object.dynamic = reinterpret_cast<ElfW(Dyn) *>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
	return object;
}

int isOwner(dl_phdr_info *info, size_t, void *data)
{
	auto &object = *static_cast<Object *>(data);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const auto &segment = info->dlpi_phdr[i];
		const auto offset = reinterpret_cast<uintptr_t>(object.address) - info->dlpi_addr - segment.p_vaddr;
		if (segment.p_type == PT_LOAD && offset < segment.p_memsz) {
			object = objectOf(*info);
			return 1;
		}
	}
	return 0;
}

namespace {

// Symbols of a file without DT_GNU_HASH, by their number.
const Symbol *findByNumber(const Object &object, const char *name)
{
	const auto *symbols = object.table<Symbol>(DT_SYMTAB);
	const auto *strings = object.table<char>(DT_STRTAB);
	const auto *table = object.table<uint32_t>(DT_HASH); // buckets, symbols
	for (uint32_t i = 1; symbols && strings && table && i < table[1]; i++)
		if (symbols[i].st_shndx && equal(strings + symbols[i].st_name, name))
			return &symbols[i];
	return nullptr;
}

} // namespace

// The only way to find dlsym itself, because the front defines dlsym and dlvsym, and the only way without the loader.
const Symbol *Object::find(const char *symbol) const
{
	const auto *symbols = table<Symbol>(DT_SYMTAB);
	const auto *strings = table<char>(DT_STRTAB);
	const auto *table = this->table<uint32_t>(DT_GNU_HASH);
	if (!symbols || !strings || !table)
		return findByNumber(*this, symbol);
	const uint32_t buckets = table[0], first = table[1], bloom = table[2];
	const uint32_t *bucket = table + 4 + bloom * (sizeof(ElfW(Addr)) / sizeof(uint32_t)), *chain = bucket + buckets;
	uint32_t hash = 5381;
	for (const char *c = symbol; *c; c++)
		hash = hash * 33 + static_cast<unsigned char>(*c);
	uint32_t i = bucket[hash % buckets];
	if (i < first)
		return nullptr;
	for (;; i++) {
		if ((chain[i - first] | 1) == (hash | 1) && equal(strings + symbols[i].st_name, symbol) && symbols[i].st_shndx)
			return &symbols[i];
		if (chain[i - first] & 1)
			return nullptr;
	}
}

} // namespace autoamp::front
