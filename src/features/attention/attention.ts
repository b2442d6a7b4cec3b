export const attentionAttention = {
  store_unavailable: 'error',
  deliveries_not_stored: 'error',
  alerts_not_delivered: 'error',
  failed_runs: 'error',
  failure_flow_closed: 'warning',
  sub_flow_closed: 'warning',
  manifest_unreadable: 'error',
  trigger_not_enforced: 'warning',
  key_set_changed: 'info',
  preset_doubtful: 'warning',
} as const;
