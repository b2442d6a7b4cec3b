export const keysAttention = {
  key_refuses_all: 'error',
  previous_key_in_use: 'warning',
  previous_key_unused: 'info',
  current_key_unused: 'warning',
  keys_differ: 'warning',
} as const;
