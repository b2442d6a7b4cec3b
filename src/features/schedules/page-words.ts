/** Names of its operations in the activity. */
export const actions = {
  pauseSchedule: 'Pause a schedule',
  resumeSchedule: 'Resume a schedule',
  triggerSchedule: 'Start a schedule now',
  changeCron: 'Change when a schedule fires',
};
