/** Names of the operations in the activity list. */
export const actions = {
  closeCircuit: 'Call a host again',
};
