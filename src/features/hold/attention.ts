export const holdAttention = {
  deliveries_held: 'info',
  deliveries_held_long: 'warning',
} as const;
