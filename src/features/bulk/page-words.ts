/** What its operations are called in the activity. */
export const actions = {
  cancelRuns: 'Cancel many runs',
  rerunRuns: 'Run many again',
  retryRuns: 'Retry many runs',
};
