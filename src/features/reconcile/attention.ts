export const reconcileAttention = {
  deliveries_missed: 'warning',
  reconcile_failing: 'warning',
} as const;
