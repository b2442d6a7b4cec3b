export const deliveriesAttention = {
  refusals_rising: 'warning',
  deliveries_to_disabled_flow: 'warning',
  expression_failed: 'warning',
} as const;
