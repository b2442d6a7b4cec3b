/** What its operations are called in the activity. */
export const actions = {
  redeliverDelivery: 'Redeliver a delivery',
  redeliverDeliveries: 'Redeliver several deliveries',
};
