/** Names of the operations in the activity list. */
export const actions = {
  openConsumer: 'Forward deliveries',
  deleteConsumer: 'Forget a consumer',
};
