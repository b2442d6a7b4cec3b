export const orderAttention = {
  order_stopped: 'error',
  order_keyless: 'warning',
} as const;
