//! Two connections over a lossless wire.
