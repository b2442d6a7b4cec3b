export const flowsAttention = {
  deliveries_held: 'info',
  deliveries_held_long: 'warning',
} as const;
