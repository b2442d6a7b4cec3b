/** Names of its operations in the activity. */
export const actions = {
  redeliverDelivery: 'Redeliver a delivery',
  redeliverDeliveries: 'Redeliver several deliveries',
};
