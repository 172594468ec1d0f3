ALTER SEQUENCE t_outbox_event_id_seq INCREMENT BY 50;
