/** What its operations are called in the activity. */
export const actions = {
  openConsumer: 'Forward deliveries',
  deleteConsumer: 'Forget a consumer',
};
