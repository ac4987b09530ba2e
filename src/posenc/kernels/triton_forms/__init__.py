"""Triton forms of kernels. Each module is imported only where ``posenc.kernels.kernel_form`` takes its form."""
