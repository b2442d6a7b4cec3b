/** What its operations are called in the activity. */
export const actions = {
  closeCircuit: 'Call a host again',
};
