/** In PostgreSQL's words, as the tables before. */
export const joinedDeliveries = `
  -- The last delivery that joined the run of another and was forwarded, where those have numbers of their own.
  ALTER TABLE sluice.consumers ADD COLUMN joined bigint NOT NULL DEFAULT 0;
  CREATE INDEX run_deliveries_that_joined ON sluice.run_deliveries (delivery_id) WHERE place > 1;
`;
