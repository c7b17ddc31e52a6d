//! Descriptors: files, polls, reads and writes.

pub mod asynchronous;
pub mod connections;
pub mod copying;
mod counter_files;
pub mod descriptors;
pub mod epoll;
pub mod file_costs;
pub mod file_io;
pub mod files;
pub mod interest;
mod interface_files;
pub mod io;
pub mod kernel_news;
mod mad_posts;
pub mod management;
pub mod poll;
pub mod random;
pub mod random_files;
pub mod select;
pub mod stdio;
pub mod terminal;
pub mod unwritten;
pub mod walk;
pub mod working_folder;
