export const hostsAttention = {
  circuit_open: 'warning',
} as const;
