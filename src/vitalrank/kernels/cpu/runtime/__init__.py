"""Worker threads, barriers and processor intrinsics."""
