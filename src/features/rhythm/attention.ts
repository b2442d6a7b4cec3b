export const rhythmAttention = {
  trigger_silent: 'warning',
  volume_broken: 'warning',
  refusals_began: 'warning',
} as const;
