// Calls an entry point with arguments that are all different and compares them with the arguments that the stand-in
// received.
#pragma once

#include "../vendor/stand_in.h"

#include <cerrno>
#include <cstdio>
#include <type_traits>
#include <utility>

static int calls, failures;

// Distinct in every byte of the type; pointers to readable zeros, because a scalar is read.
template <typename T>
T sample(int position)
{
	static char memory[64][64];
	const uint64_t bits = 0x1122334455667788u + 0x0101010101010101u * static_cast<unsigned>(position);
	if constexpr (std::is_pointer_v<T>) {
		return reinterpret_cast<T>(memory[position]);
	} else if constexpr (std::is_enum_v<T>) {
		return static_cast<T>(position);
	} else {
		T value;
		std::memcpy(&value, &bits, sizeof value);
		return value;
	}
}

template <typename Status, typename... Args>
void agrees(const char *name, Status (*function)(Args...))
{
	[&]<int... i>(std::integer_sequence<int, i...>)
	{
		const char *arrived = nullptr;
		calls++;
		errno = 77;
		function(sample<Args>(i)...);
		const int error = errno;
		const uint64_t sum = standInLast(&arrived);
		if (!arrived || std::strcmp(arrived, name) != 0 || sum != checksum(sample<Args>(i)...) || error != 77) {
			failures++;
			std::printf("%s: wrong arguments or errno %d, arrived at %s\n", name, error, arrived ? arrived : "nothing");
		}
		standInRemember("nothing", 0);
	}
	(std::make_integer_sequence<int, sizeof...(Args)>());
}

static int finish()
{
	std::printf("%d calls, %d failures\n", calls, failures);
	return failures != 0;
}
