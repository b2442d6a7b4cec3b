export const respondAttention = { answer_unfit: 'warning' } as const;
