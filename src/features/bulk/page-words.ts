/** Names of the operations in the activity list. */
export const actions = {
  cancelRuns: 'Cancel many runs',
  rerunRuns: 'Run many again',
  retryRuns: 'Retry many runs',
};
