// A core of another version.
extern "C" {
struct {
	unsigned abi, count;
	void *const *doors;
} extern const autoamp_core = {99, 4, nullptr};
}
