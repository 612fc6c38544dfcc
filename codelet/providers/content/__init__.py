"""Parts of requests and answers that most sessions do not need; imported on demand."""
