! One product from Fortran, checked: 0 if it is right. By the interface that its programs write for themselves.
program product
    use iso_c_binding
    implicit none
    interface
        integer(c_int) function create(handle) bind(c, name='cublasCreate_v2')
            import
            type(c_ptr), intent(out) :: handle
        end function
        integer(c_int) function destroy(handle) bind(c, name='cublasDestroy_v2')
            import
            type(c_ptr), value :: handle
        end function
        integer(c_int) function sgemm(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) &
                bind(c, name='cublasSgemm_v2')
            import
            type(c_ptr), value :: handle, a, b, c
            integer(c_int), value :: transa, transb, m, n, k, lda, ldb, ldc
            real(c_float), intent(in) :: alpha, beta
        end function
        integer(c_int) function allocate_there(memory, bytes) bind(c, name='cudaMalloc')
            import
            type(c_ptr), intent(out) :: memory
            integer(c_size_t), value :: bytes
        end function
        integer(c_int) function copy(to, from, bytes, way) bind(c, name='cudaMemcpy')
            import
            type(c_ptr), value :: to, from
            integer(c_size_t), value :: bytes
            integer(c_int), value :: way
        end function
    end interface
    integer(c_int), parameter :: m = 64, n = 48, k = 32
    real(c_float), target :: a(m, k), b(k, n), c(m, n)
    type(c_ptr) :: handle, there(3)
    integer(c_int) :: status(8)

    call random_number(a)
    call random_number(b)
    status(1) = create(handle)
    status(2) = on_device(a, there(1))
    status(3) = on_device(b, there(2))
    status(4) = allocate_there(there(3), int(4 * m * n, c_size_t))
    status(5) = sgemm(handle, 0, 0, m, n, k, 1.0, there(1), m, there(2), k, 0.0, there(3), m)
    status(6) = copy(c_loc(c), there(3), int(4 * m * n, c_size_t), 2)
    status(7) = destroy(handle)
    status(8) = merge(0, 1, maxval(abs(c - matmul(a, b))) < 0.05)
    if (any(status /= 0)) then
        print *, status
        stop 1
    end if
contains
    integer(c_int) function on_device(values, memory)
        real(c_float), target, intent(in) :: values(:, :)
        type(c_ptr), intent(out) :: memory
        on_device = allocate_there(memory, int(4 * size(values), c_size_t))
        if (on_device == 0) on_device = copy(memory, c_loc(values), int(4 * size(values), c_size_t), 1)
    end function
end program
