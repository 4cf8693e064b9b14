% Times products of single precision and checks them against double precision. It has no knowledge of autoamp.
rand("seed", 1); randn("seed", 1);
A = single(randn(1024)); B = single(randn(1024));
tic; for i = 1:40, C = A * B; end, seconds = toc;
R = double(A) * double(B);
printf("%.3f s, relative error %.2e", seconds, norm(double(C) - R, "fro") / norm(R, "fro"));
S = A' * A; R = double(A)' * double(A);
printf(", A'*A %.2e", norm(double(S) - R, "fro") / norm(R, "fro"));
x = (A + 100 * eye(1024, "single")) \ B(:, 1);
printf(", residual of A\\b %.2e", norm(double(A + 100 * eye(1024)) * double(x) - double(B(:, 1))) / norm(double(B(:, 1))));
printf("\n");
