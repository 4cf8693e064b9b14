// Defines exported functions of a vendor library without repeating their parameter types. ENTRY(name, failure,
// parameters...) { body } takes the types from the declaration in the vendor's header. The function returns
// FAILED(failure) before it reads an argument if AUTOAMP_EMU_FAIL selects this call. A body calls other exported
// functions as ::name, so that AUTOAMP_EMU_FAIL counts these calls too.
#pragma once

#include <cstddef>
#include <tuple>

namespace emulated {

template <typename Function>
struct Prototype;
template <typename Result, typename... Parameters>
struct Prototype<Result(Parameters...)> {
	using Status = Result;
	using Types = std::tuple<Parameters...>;
};

} // namespace emulated

#define ENTRY_STATUS(name) emulated::Prototype<decltype(::name)>::Status
#define ENTRY_TYPE(name, index) std::tuple_element_t<index, emulated::Prototype<decltype(::name)>::Types>
// ENTRY_SCAN expands ENTRY_EACH again for each further parameter. It is enough for 64 parameters.
#define ENTRY_AGAIN() ENTRY_EACH
#define ENTRY_NOTHING
#define ENTRY_EACH(name, index, parameter, ...)                                                                        \
	[[maybe_unused]] ENTRY_TYPE(name, index) parameter __VA_OPT__(                                                     \
	    , ENTRY_AGAIN ENTRY_NOTHING()(name, index + 1, __VA_ARGS__))
#define ENTRY_SCAN(...) ENTRY_SCAN3(ENTRY_SCAN3(ENTRY_SCAN3(ENTRY_SCAN3(__VA_ARGS__))))
#define ENTRY_SCAN3(...) ENTRY_SCAN2(ENTRY_SCAN2(ENTRY_SCAN2(ENTRY_SCAN2(__VA_ARGS__))))
#define ENTRY_SCAN2(...) ENTRY_SCAN1(ENTRY_SCAN1(ENTRY_SCAN1(ENTRY_SCAN1(__VA_ARGS__))))
#define ENTRY_SCAN1(...) __VA_ARGS__
#define ENTRY_PARAMETERS(name, ...) (__VA_OPT__(ENTRY_SCAN(ENTRY_EACH(name, 0, __VA_ARGS__))))

#define ENTRY(name, failure, ...)                                                                                      \
	namespace entry {                                                                                                  \
	static ENTRY_STATUS(name) name ENTRY_PARAMETERS(name, __VA_ARGS__);                                                \
	}                                                                                                                  \
	ENTRY_STATUS(name) name ENTRY_PARAMETERS(name, __VA_ARGS__)                                                        \
	{                                                                                                                  \
		return emulated::mustFail(#name) ? FAILED(failure) : entry::name(__VA_ARGS__);                                 \
	}                                                                                                                  \
	static ENTRY_STATUS(name) entry::name ENTRY_PARAMETERS(name, __VA_ARGS__)
