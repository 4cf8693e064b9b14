/* Stands in for libcurand.so.10, which the wheel of ONNX Runtime needs but does not call. */
int curandStandIn(void)
{
	return 0;
}
