export const doctorAttention = {
  disk_low: 'error',
  log_held_back: 'warning',
  database_large: 'info',
} as const;

/** A longer log is not being copied into the file: a program reads for long, or the service was killed. */
export const LONG_LOG_BYTES = 268_435_456;
