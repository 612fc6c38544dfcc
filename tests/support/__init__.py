"""What the tests and the benchmarks share: a model server, repositories, the program, a terminal."""
