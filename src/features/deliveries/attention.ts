export const deliveriesAttention = { expression_failed: 'warning' } as const;
