//! Every reason for stock answers: what the program sees, what the log says, what standard error says.
