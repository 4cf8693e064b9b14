// References from one object to functions of others: the words of its tables that the loader fills. Any thread.
#pragma once

#include "inject/object.h"

namespace autoamp::front {

// Calls visit(name, symbol, type, place) for each reference that can lead to a function.
template <typename Visit>
void forEachReference(const Object &object, Visit visit)
{
	const auto *symbols = object.table<Symbol>(DT_SYMTAB);
	const auto *strings = object.table<char>(DT_STRTAB);
	constexpr ElfW(Sxword) tables[][2] = {{DT_JMPREL, DT_PLTRELSZ}, {DT_RELA, DT_RELASZ}};
	for (const auto &[table, bytes] : tables) {
		const auto *each = object.table<ElfW(Rela)>(table), *end = each + object.value(bytes) / sizeof *each;
		for (; each != end; each++) {
			const unsigned type = ELF64_R_TYPE(each->r_info);
			const Symbol &symbol = symbols[ELF64_R_SYM(each->r_info)];
			if (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64)
				visit(strings + symbol.st_name, symbol, type, reinterpret_cast<void **>(object.base + each->r_offset));
		}
	}
}

// True if the loader made the page of this reference read-only.
bool isReadOnly(const dl_phdr_info &info, const void *place);

// Lets a reference lead to `target`. It stays as it is if its page cannot be made writable.
void redirect(void **place, void *target, bool isReadOnly);

} // namespace autoamp::front
