// A thread's stay in a product, which the end and the forks of the process must respect. exit() destroys static data of
// oneDNN, with its generated code, while other threads multiply, and before exit handlers that were registered earlier
// and may multiply. A child inherits the locks that oneDNN holds at the fork, and no thread of it releases them. Any
// thread.
#pragma once

namespace autoamp::cpu {

// While a Stay lives, exit() waits before it destroys oneDNN's data, at most two seconds.
class Stay
{
public:
	Stay();
	~Stay();
	Stay(const Stay &) = delete;
	Stay &operator=(const Stay &) = delete;

	// False: the data is or may be destroyed.
	explicit operator bool() const { return isPermitted_; }
	// True if a thread was inside during the fork of this process or of an ancestor. Then oneDNN can hang.
	bool mayHang() const;

private:
	bool isPermitted_;
};

// Exit handlers run in reverse order of registration, and oneDNN registers the destructors of static data at its first
// products of a kind. To be called after the first product of each kind.
void guardExit();

} // namespace autoamp::cpu
