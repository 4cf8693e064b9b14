extern "C" bool wasEarly();
int main()
{
	return !wasEarly();
}
