// Objects in memory: their dynamic tables and symbols. Any thread, also without the loader.
#pragma once

#include "inject/text.h"

#include <cstdint>
#include <link.h>

namespace autoamp::front {

using Symbol = ElfW(Sym);

struct Object {
	const void *address = nullptr;
	ElfW(Addr) base = 0;
	const ElfW(Dyn) *dynamic = nullptr;
	const char *path = ""; // name in the loader's list; "": the program, or no object contains the address

	uintptr_t value(ElfW(Sxword) tag) const
	{
		const ElfW(Dyn) *entry = dynamic;
		while (entry && entry->d_tag && entry->d_tag != tag)
			entry++;
		return entry && entry->d_tag ? entry->d_un.d_val : 0;
	}
	// The loader replaces file offsets by addresses, but not in every object.
	template <typename T>
	const T *table(ElfW(Sxword) tag) const
	{
		const uintptr_t at = value(tag);
		return reinterpret_cast<const T *>(at && at < base ? at + base : at);
	}
	// The name by which other objects need it: the file may have any name.
	const char *name() const
	{
		const uintptr_t soname = value(DT_SONAME);
		return soname ? table<char>(DT_STRTAB) + soname : baseName(path);
	}
	const Symbol *find(const char *symbol) const;
	void *place(const Symbol *symbol) const
	{
		auto *const at = symbol ? reinterpret_cast<void *>(base + symbol->st_value) : nullptr;
		const bool isResolver = symbol && ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC;
		return isResolver ? reinterpret_cast<void *(*)()>(at)() : at;
	}
};

Object objectOf(const dl_phdr_info &info);

// For dl_iterate_phdr; data: an Object whose `address` is set. If the loaded file contains this address, fills the
// Object and returns 1.
int isOwner(dl_phdr_info *info, size_t, void *data);

} // namespace autoamp::front
